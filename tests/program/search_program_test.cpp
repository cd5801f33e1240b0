// Searches over training: what can fail is shown to fail, from its start, in both engines.
#include "program/search_program.h"

#include <gtest/gtest.h>

#include "exec/torch_worker.h"
#include "formats/text/text.h"
#include "program/engine.h"
#include "program/read_program.h"
#include "program/remote.h"
#include "program/suspects.h"
#include "program/trainer.h"
#include "tensor/convert.h"

namespace finity {
namespace {

// Cross entropy of a softmax on two features, written out.
constexpr std::string_view kSoftmax = R"(opset 17
graph g (x: float32[N, 2], y: float32[N, 3], w: float32[2, 3]) -> (loss: float32[]) {
  u = MatMul(x, w)
  p = Softmax(u) {axis = 1}
  l = Log(p) @ "log"
  m = Mul(y, l)
  s = ReduceSum(m) {keepdims = 0}
  loss = Neg(s)
})";

// The root of a sum of squares has no slope at zero.
constexpr std::string_view kNorm = R"(opset 17
graph g (x: float32[N, 2], w: float32[2]) -> (loss: float32[]) {
  const last: int64[1] = {1}
  d = Sub(x, w)
  q = Mul(d, d)
  s = ReduceSum(q, last) {keepdims = 0}
  r = Sqrt(s) @ "root"
  loss = ReduceMean(r) {keepdims = 0}
})";

Program program_of(std::string_view model, const std::string& text) {
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(model, "m.txt"));
  return parse_program(text, "p.toml", "", parts);
}

Program softmax(const std::string& range, const std::string& rate = "0.5") {
  return program_of(kSoftmax, "batch = 4\n[inputs.x]\nvalues = [[0,1],[1,0],[1,1],[0.5,0.5]]\nrange = " + range + R"(
[inputs.y]
values = [0, 1, 2, 1]
one_hot = 3
[weights.w]
init = "zeros"
[optimiser]
rate = )" + rate + "\n");
}

Program norm(const std::string& init) {
  return program_of(kNorm,
                    "batch = 2\n[inputs.x]\nvalues = [[0,1],[1,0]]\nrange = [0, 1]\n[weights.w]\n" + init + "\n");
}

ProgramOutcome found(const Program& program, Strategy strategy, double seconds = 20, Worker* torch = nullptr) {
  return search_program(program, {.strategy = strategy, .seconds = seconds}, torch);
}

void expect_log_failure(const ProgramOutcome& outcome) {
  EXPECT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_TRUE(outcome.confirmed);
  EXPECT_EQ(outcome.rule, "FN102");
  EXPECT_EQ(outcome.node_name, "log");
}

TEST(SearchProgram, FindsInputsAfterTrainingOnTheReference) {
  const Program program = softmax("[-1000, 1000]");
  const ProgramOutcome outcome = found(program, Strategy::automatic);
  expect_log_failure(outcome);
  EXPECT_EQ(outcome.engine, "reference");
  EXPECT_GT(outcome.steps, 0u);  // with weights of zero nothing depends on the input
}

TEST(SearchProgram, GristFindsItToo) {
  expect_log_failure(found(softmax("\"any\""), Strategy::grist_ns));
  expect_log_failure(found(softmax("[0, 400]"), Strategy::grist));
}

// A sample needs several steps in a row to get there, and nothing is trained: who exchanges it in between never
// arrives.
TEST(SearchProgram, GristKeepsTheSampleThatComesNearer) {
  constexpr std::string_view kFarAway = R"(opset 17
graph g (x: float32[N, 2], w: float32[]) -> (loss: float32[]) {
  const last: int64[1] = {1}
  const five: float32[] = {5}
  s = ReduceSum(x, last) {keepdims = 0}
  d = Sub(five, s)
  l = Log(d) @ "log"
  m = Mul(l, w)
  loss = ReduceMean(m) {keepdims = 0}
})";
  std::string rows = "[0,0]";
  for (int i = 1; i < 40; ++i) rows += ",[0,0]";
  const Program program =
      program_of(kFarAway, "batch = 4\n[inputs.x]\nvalues = [" + rows +
                               "]\nrange = [0, 3]\n[weights.w]\ninit = \"constant(1)\"\n[optimiser]\nrate = 0\n");
  const ProgramOutcome outcome = found(program, Strategy::grist);
  expect_log_failure(outcome);
  EXPECT_LE(outcome.iterations, 20u);  // 5 / (2 * 0.15) steps
}

// The operand lies lowest at the start, rises at once, and falls for thousands of steps, because training moves t.
TEST(SearchProgram, GristGoesOnWhileItFalls) {
  constexpr std::string_view kSlow = R"(opset 17
graph g (x: float32[N, 1], t: float32[1]) -> (loss: float32[]) {
  const zero: float32[] = {0}
  const one: float32[] = {1}
  const steep: float32[] = {40}
  const top: float32[] = {3.5}
  climb = Mul(t, steep)
  up = Add(climb, one)
  down = Sub(top, t)
  p = Min(up, down)
  flat = Mul(x, zero)
  q = Add(p, flat)
  l = Log(q) @ "log"
  none = Mul(l, zero)
  gone = Sub(none, t)
  loss = ReduceMean(gone) {keepdims = 0}
})";
  const Program program = program_of(kSlow, R"(
batch = 2
[inputs.x]
values = [[0], [1], [2]]
[weights.t]
init = "zeros"
[optimiser]
rate = 0.001
)");
  const ProgramOutcome outcome = found(program, Strategy::grist);
  expect_log_failure(outcome);
  EXPECT_GT(outcome.iterations, 3000u);
}

TEST(SearchProgram, StaysInsideTheLegalRange) {
  const ProgramOutcome outcome = found(softmax("[0, 300]"), Strategy::automatic);
  expect_log_failure(outcome);
  for (const double x : elements<double>(outcome.run.samples.at("x"))) {
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 300);
  }
}

TEST(SearchProgram, TheSameSeedGivesTheSameRun) {
  const ProgramOutcome a = found(softmax("[0, 300]"), Strategy::automatic);
  const ProgramOutcome b = found(softmax("[0, 300]"), Strategy::automatic);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.iterations, b.iterations);
  EXPECT_TRUE(identical(a.run.last_inputs.at("x"), b.run.last_inputs.at("x")));
}

TEST(SearchProgram, InvalidDerivativesAreNamed) {
  const ProgramOutcome outcome = found(norm("init = \"uniform(0.2,0.8)\"\nrange = [0, 1]"), Strategy::automatic);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_TRUE(outcome.confirmed);
  EXPECT_TRUE(outcome.in_gradient);
  EXPECT_NE(outcome.node.find("derivative of node 'root'"), std::string::npos) << outcome.node;
}

// In the worker nodes know by their names only whose derivative they belong to.
TEST(SearchProgram, InvalidDerivativesCountForTheirOpInTheWorkerToo) {
  const auto options = torch_worker();
  if (!options) GTEST_SKIP() << kNoTorchWorker;
  Worker worker(*options);
  const Program program = norm("init = \"uniform(0.2,0.8)\"\nrange = [0, 1]");
  const ProgramOutcome outcome = search_program(
      program, {.strategy = Strategy::automatic, .seconds = 20, .sites = {"root"}, .until = Until::at_site}, &worker);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_EQ(outcome.engine, "libtorch");
  EXPECT_TRUE(outcome.at_site);
  EXPECT_TRUE(outcome.in_gradient);
  EXPECT_NE(outcome.node.find("derivative of node 'root'"), std::string::npos) << outcome.node;
}

// A step that fails is no step: what led there can be looked at, and the run goes on with other data.
TEST(TrainingEngines, FailingStepsLeaveEverythingAsItWas) {
  const Program program = norm("init = \"constant(1)\"");
  const auto engine = make_reference_engine(program);
  Trainer trainer(program, *engine, 1);
  trainer.restart();
  const auto feed = [&](std::vector<double> x) {
    trainer.set_value(0, from_elements<double>(DType::float32, {2, 2}, x));
  };
  feed({1, 1, 0, 0});  // the first is where the norm has no slope
  EXPECT_FALSE(trainer.train());
  EXPECT_EQ(trainer.steps(), 0u);
  EXPECT_EQ(elements<double>(engine->weight(0)), (std::vector<double>{1, 1}));
  feed({1, 0, 0, 0});
  EXPECT_TRUE(trainer.train());
  EXPECT_EQ(trainer.steps(), 1u);
  EXPECT_NE(elements<double>(engine->weight(0)), (std::vector<double>{1, 1}));
}

TEST(SearchProgram, SaysHowNearItCame) {
  // Without training and with bounded inputs the softmax of three scores cannot vanish.
  Program program = softmax("[0, 1]");
  program.weights[0].train = false;
  const ProgramOutcome outcome = search_program(program, {.seconds = 0.5, .sites = {"log"}}, nullptr);
  EXPECT_FALSE(outcome.hit);
  EXPECT_NEAR(outcome.closest, 1.0 / 3, 1e-3);
  EXPECT_EQ(outcome.stopped, "time");
}

constexpr std::string_view kBranch = R"(opset 17
graph g (x: float32[N, 2], w: float32[2]) -> (loss: float32[]) {
  const c: bool[] = {true}
  m = Mul(x, w)
  s = If(c) {
    then_branch = graph yes () -> (l) {
      l = Log(m)
    },
    else_branch = graph no () -> (r) {
      r = Relu(m)
    }
  }
  loss = ReduceMean(s) {keepdims = 0}
})";

// Nothing walks into branches, but what is there is not proved for that.
TEST(SearchProgram, HazardsInsideBranchesStayOpen) {
  const auto outcome = [](const std::string& range) {
    const Program program = program_of(kBranch, "batch = 2\n[inputs.x]\nvalues = [[1,1],[1,1]]\nrange = " + range +
                                                    "\n[weights.w]\nvalues = [1, 1]\nrange = [1, 1]\ntrain = false\n");
    return found(program, Strategy::automatic, 0.2);
  };
  const ProgramOutcome open = outcome("[0, 1]");
  EXPECT_EQ(open.suspects, 0u);
  EXPECT_EQ(open.unsearched, 1u);
  ASSERT_EQ(open.open.size(), 1u);
  EXPECT_EQ(open.open[0].rule, "FN102");
  EXPECT_FALSE(open.open[0].searched);
  EXPECT_EQ(outcome("[0.5, 1]").unsearched, 0u);
}

TEST(SearchProgram, WhatIsProvedIsNotSearchedForLong) {
  const Program program = program_of(kNorm, R"(batch = 2
[inputs.x]
values = [[0,1],[1,0]]
range = [0, 1]
[weights.w]
values = [3, 3]
range = [3, 3]
train = false
)");
  const ProgramOutcome outcome = found(program, Strategy::automatic, 60);
  EXPECT_FALSE(outcome.hit);
  EXPECT_EQ(outcome.suspects + outcome.unsearched, 0u);
  EXPECT_LT(outcome.seconds, 10);
}

TEST(SearchProgram, UnknownSitesAreErrors) {
  EXPECT_THROW(search_program(softmax("[0, 1]"), {.sites = {"nowhere"}}, nullptr), Error);
}

TEST(SearchProgram, StopsWhenTold) {
  ProgramSearch options = {.strategy = Strategy::plain, .seconds = 60};
  options.progress = [](double, std::uint64_t, double) { return false; };
  const ProgramOutcome outcome = search_program(softmax("[0, 1]", "0.001"), options, nullptr);
  EXPECT_FALSE(outcome.hit);
  EXPECT_EQ(outcome.stopped, "interrupted");
  EXPECT_LT(outcome.seconds, 30);
}

// What is kept of a run is enough to repeat it, after a way through tensors.
TEST(TrainingRun, IsRepeatedFromWhatWasKept) {
  const Program program = softmax("[0, 300]");
  const ProgramOutcome outcome = found(program, Strategy::automatic);
  ASSERT_TRUE(outcome.hit);
  const TrainingRun again = run_from(tensors_of(outcome.run));
  const std::unique_ptr<TrainingEngine> engine = make_reference_engine(program);
  const std::size_t pass = engine->add_pass({.read = program.watch_ids});
  EXPECT_TRUE(repeat_run(program, *engine, again, pass).failed);
  TrainingRun other = again;
  for (auto& [name, tensor] : other.samples) {
    if (name == "x") tensor = Tensor(tensor.dtype(), tensor.dims());  // harmless inputs
  }
  EXPECT_FALSE(repeat_run(program, *engine, other, pass).failed);
}

// Otherwise a long run would fill memory while it is repeated, and be lost.
TEST(TrainingRun, KeepsEachSampleOnceWhenItIsRepeated) {
  const Program program = softmax("[0, 1]", "0.001");
  const std::unique_ptr<TrainingEngine> engine = make_reference_engine(program);
  const auto trained = [&](Trainer& trainer, const std::function<void(std::size_t)>& feed) {
    for (std::size_t step = 0; step < 12; ++step) {
      feed(step);
      EXPECT_TRUE(trainer.train());
    }
    return trainer.run();
  };
  Trainer first(program, *engine, 1);
  first.restart();
  const TrainingRun run = trained(first, [&](std::size_t step) {
    first.fresh_batch();
    const double changed = 0.5 + 0.01 * static_cast<double>(step);
    first.set_row(0, 0, from_elements<double>(DType::float32, {2}, std::vector<double>{changed, 0}).bytes());
  });
  Trainer second(program, *engine, 2);
  second.begin(run);
  const TrainingRun again = trained(second, [&](std::size_t step) { second.feed_step(run, step); });
  const Tensor before = run.samples.at("x"), after = again.samples.at("x");
  EXPECT_EQ(after.dim(0), before.dim(0));
  ASSERT_EQ(again.steps.size(), run.steps.size());
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    const auto numbers = [&](const TrainingRun& which, const Tensor& samples, std::size_t k) {
      const std::int64_t at = which.steps[step][0][k];
      return std::vector<double>{element_as_double(samples, 2 * at), element_as_double(samples, 2 * at + 1)};
    };
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(numbers(run, before, k), numbers(again, after, k));
  }
}

TEST(SearchProgram, RunsInTheWorker) {
  const std::optional<WorkerOptions> options = torch_worker();
  if (!options) GTEST_SKIP() << kNoTorchWorker;
  Worker worker(*options);
  const Program program = softmax("[0, 300]");
  for (const Strategy strategy : {Strategy::automatic, Strategy::grist}) {
    const ProgramOutcome outcome = found(program, strategy, 20, &worker);
    expect_log_failure(outcome);
    EXPECT_EQ(outcome.engine, "libtorch");
    // What LibTorch found the reference shows too.
    const std::unique_ptr<TrainingEngine> engine = make_reference_engine(program);
    EXPECT_TRUE(repeat_run(program, *engine, outcome.run, engine->add_pass({.read = program.watch_ids})).failed);
    const std::optional<Repeated> repeated = repeat_in_worker(program, outcome.run, worker);
    EXPECT_TRUE(repeated && repeated->failed);
  }
  EXPECT_EQ(worker.starts(), 1);
}

// Both engines train alike.
TEST(TrainingEngines, GiveTheSameWeights) {
  const std::optional<WorkerOptions> options = torch_worker();
  if (!options) GTEST_SKIP() << kNoTorchWorker;
  Worker worker(*options);
  Program program = softmax("[0, 1]", "100");
  const ProgramOutcome by_torch = found(program, Strategy::plain, 20, &worker);
  const ProgramOutcome by_reference = found(program, Strategy::plain, 20);
  ASSERT_TRUE(by_torch.hit && by_reference.hit);
  EXPECT_EQ(by_torch.steps, by_reference.steps);
}

// A product of 27 billion terms: no single pass ends within the limit, and the search does.
TEST(SearchProgram, EndsInsideAPassThatTakesLonger) {
  constexpr std::string_view kLarge = R"(opset 17
graph g (x: float32[N, 2], w: float32[2]) -> (loss: float32[]) {
  const size: int64[2] = {3000, 3000}
  m = Mul(x, w)
  s = ReduceMean(m) {keepdims = 0}
  large = Expand(s, size)
  product = MatMul(large, large)
  mean = ReduceMean(product) {keepdims = 0}
  loss = Log(mean)
})";
  const Program program =
      program_of(kLarge, "batch = 1\n[inputs.x]\nvalues = [[1, 1]]\nrange = [0, 1]\n[weights.w]\nvalues = [1, 1]\n");
  const ProgramOutcome outcome = found(program, Strategy::automatic, 0.2);
  EXPECT_FALSE(outcome.hit);
  EXPECT_EQ(outcome.iterations, 0u);
  EXPECT_EQ(outcome.stopped, "time");
}

// A subnormal variance: its root has a slope unless subnormals are flushed to zero.
TEST(FlushSubnormals, DecidesWhatFails) {
  constexpr std::string_view kRoot = R"(opset 17
graph g (x: float32[N, 1], w: float32[1]) -> (loss: float32[]) {
  z = Mul(x, w)
  v = Exp(z)
  r = Sqrt(v) @ "root"
  loss = ReduceMean(r) {keepdims = 0}
})";
  const std::string text =
      "batch = 1\n[inputs.x]\nvalues = [[-1]]\nrange = [-100, 0]\n[weights.w]\nvalues = [1]\n"
      "[optimiser]\nrate = 0.0\n";  // the weight stays what it is
  const Program kept = program_of(kRoot, text);
  EXPECT_FALSE(found(kept, Strategy::automatic, 1).hit);
  const Program flushed = program_of(kRoot, "flush_subnormals = true\n" + text);
  const ProgramOutcome outcome = found(flushed, Strategy::automatic, 20);
  EXPECT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_TRUE(outcome.in_gradient);
  const std::optional<WorkerOptions> options = torch_worker();
  if (!options) return;
  Worker worker(*options);
  EXPECT_TRUE(found(flushed, Strategy::automatic, 20, &worker).hit);
}

}  // namespace
}  // namespace finity
