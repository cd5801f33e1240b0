// Programs whose samples are drawn, not read: what may be done with samples can be done with them too.
#include <gtest/gtest.h>

#include <set>

#include "formats/text/text.h"
#include "program/attack.h"
#include "program/draws.h"
#include "program/driver.h"
#include "program/failing_nodes.h"
#include "program/poison.h"
#include "program/read_program.h"
#include "program/search_program.h"
#include "tensor/convert.h"

namespace finity {
namespace {

Program program_of(std::string_view model, const std::string& text) {
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(model, "m.txt"));
  return parse_program(text, "p.toml", "", parts);
}

ProgramOutcome found(const Program& program, std::uint64_t seed = 0) {
  const Program with_samples = with_drawn_samples(program, seed);
  return search_program(
      with_samples, {.strategy = Strategy::automatic, .seed = seed, .seconds = 20, .until = Until::all_sites}, nullptr);
}

// A regression whose error is under a cosh: only after training on one kind of sample another one errs so much.
constexpr std::string_view kCosh = R"(opset 17
graph g (x: float32[N, 4], y: float32[N, 1], W: float32[4, 1]) -> (loss: float32[]) {
  h = MatMul(x, W)
  e = Sub(h, y)
  c = Cosh(e) @ "cosh"
  l = Log(c)
  loss = ReduceMean(l) {keepdims = 0}
})";
constexpr std::string_view kCoshTraining = R"toml(batch = 8
[inputs.x]
draw = "normal(0,1)"
range = [-4, 4]
[inputs.y]
draw = "normal(0,10)"
label = true
[weights.W]
init = "normal(0,0.1)"
reach = 10
[optimiser]
rate = 0.1
)toml";

TEST(DrawnSamples, AreDataWithTheSameContract) {
  const Program program = program_of(kCosh, std::string(kCoshTraining));
  const Program made = with_drawn_samples(program, 3);
  ASSERT_EQ(made.inputs.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(made.inputs[i].draw.has_value());
    EXPECT_GE(made.inputs[i].data.dim(0), 4 * program.batch);
    EXPECT_EQ(made.inputs[i].data.dim(0), made.inputs[0].data.dim(0));
    EXPECT_EQ(made.inputs[i].range->lo, program.inputs[i].range->lo);
    EXPECT_EQ(made.inputs[i].range->hi, program.inputs[i].range->hi);
    EXPECT_EQ(*made.inputs[i].change, *program.inputs[i].change);
  }
}

TEST(DrawnSamples, NoiseBesideDataStaysNoise) {
  const Program program = program_of(kCosh, R"toml(batch = 2
[inputs.x]
draw = "normal(0,1)"
[inputs.y]
values = [[1],[2],[3],[4]]
label = true
[weights.W]
init = "zeros"
)toml");
  EXPECT_TRUE(with_drawn_samples(program, 0).inputs[0].draw.has_value());
}

TEST(DrawnSamples, TrainingOnOneKindMakesAnotherFail) {
  const ProgramOutcome outcome = found(program_of(kCosh, std::string(kCoshTraining)));
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_TRUE(outcome.confirmed);
  EXPECT_EQ(outcome.node_name, "cosh");
  EXPECT_GT(outcome.steps, 0U);
}

TEST(DrawnSamples, ClassesHaveOneOnePerRow) {
  const std::vector<double> rows = elements<double>(drawn(parse_draw("one_hot"), DType::float32, {40, 3}, 5));
  std::set<std::size_t> classes;
  for (std::size_t row = 0; row < 40; ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      sum += rows[3 * row + k];
      if (rows[3 * row + k] == 1) classes.insert(k);
    }
    EXPECT_EQ(sum, 1);
  }
  EXPECT_EQ(classes.size(), 3U);
  EXPECT_EQ(to_string(parse_draw("one_hot")), "one_hot");
}

// A mask of drawn bits hides a whole row at the end of its range only, where no slope leads.
TEST(DrawnSamples, MasksAreLookedAtWhereTheyHideAll) {
  const Program program = program_of(R"(opset 17
graph g (x: float32[N, 4], mask: float32[N, 4], w: float32[4]) -> (loss: float32[]) {
  const half: float32[] = {0.5}
  const hidden: float32[] = {-inf}
  s = Mul(x, w)
  keep = Greater(mask, half)
  m = Where(keep, s, hidden)
  p = Softmax(m) {axis = 1} @ "attention"
  q = Mul(p, x)
  loss = ReduceMean(q) {keepdims = 0}
})",
                                     R"toml(batch = 4
[inputs.x]
draw = "normal(0,1)"
range = [-4, 4]
[inputs.mask]
draw = "bernoulli(0.99)"
[weights.w]
init = "normal(0,0.1)"
reach = 10
)toml");
  const ProgramOutcome outcome = found(program);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_EQ(outcome.rule, "FN301");
  EXPECT_EQ(outcome.node_name, "attention");
}

// A quotient by zero is no quotient that is too large, though both rules speak of the node.
TEST(DrawnSamples, TheRuleIsTheOneThatWasMet) {
  const Program program = program_of(R"(opset 17
graph g (x: float32[N, 3], w: float32[3]) -> (loss: float32[]) {
  const last: int64[1] = {1}
  g = Relu(x)
  n = Mul(g, w)
  top = ReduceSum(n, last) {keepdims = 0}
  bottom = ReduceSum(g, last) {keepdims = 0}
  q = Div(top, bottom) @ "mean"
  loss = ReduceMean(q) {keepdims = 0}
})",
                                     R"toml(batch = 4
[inputs.x]
draw = "uniform(-1,1)"
[weights.w]
init = "constant(1)"
reach = 10
)toml");
  const ProgramOutcome outcome = found(program);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_EQ(outcome.rule, "FN101");
  EXPECT_EQ(outcome.node_name, "mean");
}

// The angle between two vectors has no slope where it is 0, and its cosine is flat there: plain steps do not arrive.
TEST(DrawnSamples, SquaredDistancesAreWalkedToTheirEnd) {
  const Program program = program_of(R"(opset 17
graph g (x: float32[N, 3], y: float32[N, 3], w: float32[3]) -> (loss: float32[]) {
  const last: int64[1] = {1}
  const tiny: float32[] = {1e-6}
  e = Mul(x, w)
  ey = Mul(e, y)
  dot = ReduceSum(ey, last) {keepdims = 0}
  ee = Mul(e, e)
  yy = Mul(y, y)
  e2 = ReduceSum(ee, last) {keepdims = 0}
  y2 = ReduceSum(yy, last) {keepdims = 0}
  ea = Add(e2, tiny)
  ya = Add(y2, tiny)
  el = Sqrt(ea)
  yl = Sqrt(ya)
  lengths = Mul(el, yl)
  cosine = Div(dot, lengths)
  angle = Acos(cosine) @ "angle"
  loss = ReduceMean(angle) {keepdims = 0}
})",
                                     R"toml(batch = 8
[inputs.x]
draw = "normal(0,1)"
range = [-4, 4]
[inputs.y]
draw = "normal(0,1)"
label = true
[weights.w]
init = "constant(1)"
reach = 10
[optimiser]
rate = 0.01
)toml");
  const ProgramOutcome outcome = found(program);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_NE(outcome.node.find("'angle'"), std::string::npos) << outcome.node;
}

// ---- what is trained on ----------------------------------------------------------------

// The same samples for every step: faint ones in one round, as they are in another.
TEST(HeldSamples, AreTheSameForEveryStep) {
  const Program program = program_of(kCosh, R"toml(batch = 2
[inputs.x]
values = [[1,2,3,4],[4,3,2,1],[0,0,0,1],[0,0,1,0],[1,0,0,0],[0,1,0,0]]
range = [-4, 4]
[inputs.y]
values = [[1],[2],[3],[4],[5],[6]]
label = true
[weights.W]
init = "normal(0,0.1)"
)toml");
  const Prepared prepared = prepare(program, {});
  const ProgramSearch options;
  const std::unique_ptr<TrainingEngine> engine = make_reference_engine(prepared.program);
  Driver driver(prepared, options, *engine);
  driver.trainer().restart();
  Attack attack(driver, prepared.suspects.front());
  Poison poison(driver);
  ASSERT_TRUE(poison.can(Manner::held));
  const std::size_t x = program.inputs[0].name == "x" ? 0 : 1, y = 1 - x;
  const auto fed = [&](std::uint64_t round) {
    poison.begin(Manner::held, round);
    poison.feed(attack);
    const std::vector<double> first = elements<double>(driver.trainer().value(x));
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(driver.train());
      poison.feed(attack);
      EXPECT_EQ(elements<double>(driver.trainer().value(x)), first);
    }
    // And they are kept once.
    EXPECT_LE(driver.trainer().run().samples.at("x").dim(0), 4);
    EXPECT_EQ(elements<double>(driver.trainer().value(y)), (std::vector<double>{1, 2}));
    return first;
  };
  std::vector<double> bright = {1, 2, 3, 4, 4, 3, 2, 1};
  EXPECT_EQ(fed(1), bright);
  for (double& number : bright) number /= 16;
  EXPECT_EQ(fed(0), bright);
}

// ---- which node failed ---------------------------------------------------------------

TEST(FailingNodes, InfinitiesThatAreMeantAreNoFailureUntilTheyBecomeNan) {
  const Graph graph = parse_graph(R"(opset 17
graph g (s: float32[2]) -> (q) {
  const hidden: float32[2] = {-inf, -inf}
  a = Min(s, hidden)
  p = Softmax(a)
  q = Neg(p)
})",
                                  "test");
  const auto node = [&](std::size_t i) { return graph.main().nodes.at(i); };
  FailingNodes nodes;
  const FailingNodes::Among infinite = {.infinite = true}, nan = {.nan = true};
  nodes.saw(node(0), graph.node(node(0)), infinite, infinite);
  nodes.saw(node(1), graph.node(node(1)), infinite, nan);
  nodes.saw(node(2), graph.node(node(2)), nan, nan);
  EXPECT_EQ(nodes.take(), std::vector<NodeId>{node(1)});
}

TEST(FailingNodes, WhatAnOverflowLeadsToIsNotBlamed) {
  const Graph graph = parse_graph(R"(opset 17
graph g (s: float32[2]) -> (q) {
  e = Exp(s)
  i = Identity(e)
  q = Sub(i, i)
})",
                                  "test");
  const auto node = [&](std::size_t i) { return graph.main().nodes.at(i); };
  FailingNodes nodes;
  nodes.saw(node(0), graph.node(node(0)), {}, {.infinite = true});
  nodes.saw(node(1), graph.node(node(1)), {.infinite = true}, {.infinite = true});
  nodes.saw(node(2), graph.node(node(2)), {.infinite = true}, {.nan = true});
  EXPECT_EQ(nodes.take(), std::vector<NodeId>{node(0)});
}

}  // namespace
}  // namespace finity
