// What is trained on is chosen by where the step leads: weights are driven to exactly 0, where they divide by nothing.
#include "program/aim.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/text/text.h"
#include "program/draws.h"
#include "program/driver.h"
#include "program/read_program.h"
#include "program/search_program.h"
#include "program/suspects.h"
#include "tensor/convert.h"

namespace finity {
namespace {

Program program_of(std::string_view model, const std::string& text) {
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(model, "m.txt"));
  return parse_program(text, "p.toml", "", parts);
}

ProgramOutcome found(const Program& program) {
  const ProgramSearch search = {.strategy = Strategy::automatic, .seconds = 20, .clock = ClockKind::processor};
  return search_program(with_drawn_samples(program, 0), search, nullptr);
}

// A flow whose scale is learned. Nothing is near 0 that is not 0: the next float is 1e-10 away or more.
constexpr std::string_view kFlow = R"(opset 17
graph g (x: float32[N, 2], s: float32[2], b: float32[2]) -> (loss: float32[]) {
  const half: float32[] = {0.5}
  const last: int64[1] = {-1}
  c = Sub(x, b)
  z = Div(c, s) @ "whiten"
  z2 = Mul(z, z)
  zh = Mul(z2, half)
  nl = ReduceSum(zh, last) {keepdims = 0}
  a = Abs(s)
  l = Log(a) @ "log_scale"
  ld = ReduceSum(l) {keepdims = 0}
  t = Add(nl, ld)
  loss = ReduceMean(t) {keepdims = 0}
})";

std::string flow_training(const std::string& optimiser) {
  return R"toml(batch = 8
[inputs.x]
draw = "normal(0,1)"
range = [-5, 5]
[weights.s]
init = "constant(0.3)"
[weights.b]
init = "zeros"
[optimiser]
)toml" + optimiser;
}

TEST(Aim, LearnedScalesBecomeExactlyZero) {
  for (const char* optimiser : {"rate = 0.05\n", "kind = \"momentum\"\nrate = 0.01\n"}) {
    const Program program = with_drawn_samples(program_of(kFlow, flow_training(optimiser)), 0);
    const Prepared prepared = prepare(program, {"whiten"});
    const ProgramSearch options = {.clock = ClockKind::processor};
    const std::unique_ptr<TrainingEngine> engine = make_reference_engine(prepared.program);
    Driver driver(prepared, options, *engine);
    Trainer& trainer = driver.trainer();
    trainer.restart();
    trainer.fresh_batch();
    const Trainer::Batch probe = trainer.batch();
    Poison poison(driver);
    Aim aim(driver, poison, prepared.suspects.front());
    aim.begin(0);
    constexpr std::uint64_t kMost = 60;
    while (!aim.has_met() && trainer.steps() < kMost) {
      aim.feed(probe);
      ASSERT_TRUE(driver.train()) << optimiser;
      aim.trained();
    }
    ASSERT_TRUE(aim.has_met()) << optimiser;
    const auto is_scale = [](const ProgramWeight& weight) { return weight.name == "s"; };
    const auto at = std::ranges::find_if(prepared.program.weights, is_scale) - prepared.program.weights.begin();
    const std::vector<double> scale = elements<double>(engine->weight(static_cast<std::size_t>(at)));
    EXPECT_TRUE(scale[0] == 0 || scale[1] == 0);
    // The run that led there is repeated from its start, on samples that are legal.
    const TrainingRun run = trainer.run();
    const Repeated repeated = repeat_run(prepared.program, *engine, run, driver.add_pass({}));
    EXPECT_TRUE(repeated.failed);
    for (const double x : elements<double>(run.samples.at("x"))) EXPECT_LE(std::abs(x), 5);
  }
}

// A row of padding and nothing else: tokens have no slope that would lead there.
TEST(DrawnSamples, WholeNumbersAreAllTheSameInSomeRows) {
  const Program program = program_of(R"(opset 17
graph g (tok: int64[N, 6], E: float32[8, 3]) -> (loss: float32[]) {
  const last: int64[1] = {-1}
  h = Gather(E, tok) {axis = 0}
  m = ReduceMean(h) {axes = [1], keepdims = 0}
  m2 = Mul(m, m)
  s = ReduceSum(m2, last) {keepdims = 1}
  n = Sqrt(s)
  u = Div(m, n) @ "direction"
  loss = ReduceMean(u) {keepdims = 0}
})",
                                     R"toml(batch = 4
[inputs.tok]
draw = "integers(0,8)"
[weights.E]
values = [[0,0,0],[1,2,3],[2,1,1],[1,1,2],[3,1,2],[1,3,1],[2,2,1],[1,1,1]]
train = false
)toml");
  const Program made = with_drawn_samples(program, 1);
  const std::vector<double> tokens = elements<double>(made.inputs[0].data);
  const std::vector<double> padding(tokens.end() - 6, tokens.end());
  EXPECT_EQ(padding, std::vector<double>(6, 0));
  for (const double token : tokens) EXPECT_TRUE(token >= 0 && token < 8);
  const ProgramOutcome outcome = found(program);
  ASSERT_TRUE(outcome.hit) << outcome.closest_text;
  EXPECT_EQ(outcome.node_name, "direction");
}

// Sums inside a recurrent layer may overflow, as all sums may: what is said of them is how near they came to it, and
// they come after the sites that matter.
TEST(Suspects, SumsOfRecurrentLayersAreHeldAgainstTheLargestNumber) {
  const Program program = program_of(R"(opset 17
graph g (x: float32[N, 3, 2], W: float32[1, 8, 2], R: float32[1, 8, 2]) -> (loss: float32[]) {
  const first: int64[1] = {0}
  t = Transpose(x) {perm = [1, 0, 2]}
  _, h, _ = LSTM(t, W, R) {hidden_size = 2}
  s = Squeeze(h, first)
  l = Log(s) @ "log"
  loss = ReduceMean(l) {keepdims = 0}
})",
                                     R"toml(batch = 4
[inputs.x]
draw = "normal(0,1)"
[weights.W]
init = "normal(0,1)"
[weights.R]
init = "normal(0,1)"
)toml");
  const Prepared prepared = prepare(program, {});
  ASSERT_GT(prepared.suspects.size(), 1U);
  EXPECT_EQ(prepared.suspects.front().name, "log");
  for (const Suspect& suspect : prepared.suspects) {
    if (suspect.title.find("(LSTM)") == std::string::npos) continue;
    EXPECT_TRUE(suspect.unsafe.empty()) << suspect.unsafe;
  }
}

}  // namespace
}  // namespace finity
