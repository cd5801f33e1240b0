// Programs with several vulnerable ops: each gets a run of its own, what fails first does not hide the others, and what
// was found survives the process that found it.
#include <gtest/gtest.h>

#include <set>

#include "formats/text/text.h"
#include "program/engine.h"
#include "program/read_program.h"
#include "program/search_program.h"
#include "program/trainer.h"

namespace finity {
namespace {

// Both logarithms of a binary cross entropy of a softmax: 1 - p is rounded to 0 long before p is.
constexpr std::string_view kTwoLogs = R"(opset 17
graph g (x: float32[N, 2], y: float32[N, 3], w: float32[2, 3]) -> (loss: float32[]) {
  const one: float32[] = {1}
  u = MatMul(x, w)
  p = Softmax(u) {axis = 1}
  l = Log(p) @ "log"
  q = Sub(one, p)
  k = Log(q) @ "log_not"
  m = Mul(y, l)
  z = Sub(one, y)
  n = Mul(z, k)
  a = Add(m, n)
  s = ReduceSum(a) {keepdims = 0}
  loss = Neg(s)
})";

Program two_logs(const std::string& weight = "init = \"zeros\"") {
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(kTwoLogs, "m.txt"));
  return parse_program(R"(batch = 4
[inputs.x]
values = [[0,1],[1,0],[1,1],[0.5,0.5]]
range = [-200, 200]
[inputs.y]
values = [0, 1, 2, 1]
one_hot = 3
[optimiser]
rate = 0.1
[weights.w]
)" + weight + "\n",
                       "p.toml", "", parts);
}

void expect_repeatable(const Program& program, const ProgramOutcome& outcome) {
  const std::unique_ptr<TrainingEngine> engine = make_reference_engine(program);
  EXPECT_TRUE(repeat_run(program, *engine, outcome.run, engine->add_pass({.read = program.watch_ids})).failed);
}

TEST(ManySites, EachGetsARunOfItsOwn) {
  const Program program = two_logs();
  const ProgramOutcome outcome =
      search_program(program, {.seconds = 20, .sites = {"log", "log_not"}, .until = Until::all_sites}, nullptr);
  ASSERT_TRUE(outcome.hit);
  ASSERT_EQ(outcome.more.size(), 1U);
  std::set<std::string> names = {outcome.node_name, outcome.more[0].node_name};
  EXPECT_EQ(names, (std::set<std::string>{"log", "log_not"}));
  EXPECT_TRUE(outcome.confirmed && outcome.more[0].confirmed);
  EXPECT_TRUE(outcome.open.empty());
  expect_repeatable(program, outcome);
  expect_repeatable(program, outcome.more[0]);
}

TEST(ManySites, WhatFailsFirstDoesNotHideWhatWasAskedFor) {
  for (const Until until : {Until::at_site, Until::rather_site}) {
    const ProgramOutcome outcome =
        search_program(two_logs(), {.seconds = 20, .sites = {"log"}, .until = until}, nullptr);
    ASSERT_TRUE(outcome.hit);
    EXPECT_TRUE(outcome.at_site);
    EXPECT_EQ(outcome.node_name, "log");
    EXPECT_LE(outcome.first_seconds, outcome.seconds);
  }
}

// A gap of 20 between scores rounds 1 - p to 0, and p itself stays far away from it.
Program only_one_fails() {
  Program program = two_logs("values = [[1, 0, 0], [0, 1, 0]]\ntrain = false");
  program.inputs[0].range = LegalRange{0, 20};
  return program;
}

TEST(ManySites, AFailureElsewhereIsHandedOverWhenThereIsNoOther) {
  const Program program = only_one_fails();
  const ProgramSearch rather = {.seconds = 1.5, .sites = {"log"}, .until = Until::rather_site};
  const ProgramOutcome outcome = search_program(program, rather, nullptr);
  EXPECT_TRUE(outcome.hit);
  EXPECT_FALSE(outcome.at_site);
  EXPECT_EQ(outcome.node_name, "log_not");
  const ProgramSearch only = {.seconds = 1.5, .sites = {"log"}, .until = Until::at_site};
  EXPECT_FALSE(search_program(program, only, nullptr).hit);
}

// A proof for weights within their reach, none for weights of any size.
TEST(ManySites, ReachMakesProofsOfPrograms) {
  const auto suspects = [](const std::string& weight) {
    Program program = two_logs(weight);
    program.inputs[0].range = LegalRange{0, 1};
    return search_program(program, {.strategy = Strategy::plain, .seconds = 0.1, .sites = {}}, nullptr);
  };
  const std::size_t bounded = suspects("init = \"zeros\"\nreach = 2").suspects;
  EXPECT_LT(bounded, suspects("init = \"zeros\"").suspects);
}

class LostWorker : public testing::TestWithParam<const char*> {};

TEST_P(LostWorker, KeepsWhatWasFoundAndNamesTheNode) {
  const std::string how = GetParam();
  WorkerOptions options = {.command = {FINITY_FAILING_WORKER, how, "60"}, .memory_bytes = std::uint64_t{1} << 29};
  if (how == "hang") options.seconds = 3;
  Worker worker(options);
  Program program = only_one_fails();
  const ProgramSearch search = {.seconds = 60, .sites = {"log", "log_not"}, .until = Until::all_sites};
  const ProgramOutcome outcome = search_program(program, search, &worker);
  EXPECT_TRUE(outcome.stopped.find("node 'log' (Log)") != std::string::npos) << outcome.stopped;
  EXPECT_TRUE(outcome.stopped.starts_with(how == "crash"  ? "crashed"
                                          : how == "hang" ? "late"
                                                          : "failed"))
      << outcome.stopped;
  ASSERT_TRUE(outcome.hit);
  EXPECT_TRUE(outcome.confirmed);
  EXPECT_EQ(outcome.node_name, "log_not");
  expect_repeatable(program, outcome);
}
INSTANTIATE_TEST_SUITE_P(All, LostWorker, testing::Values("crash", "hang"));
#if !defined(__SANITIZE_ADDRESS__)  // workers have no limit of memory under the sanitizer
INSTANTIATE_TEST_SUITE_P(Limited, LostWorker, testing::Values("memory"));
#endif

// Both clocks end a search in time.
TEST(ManySites, TheTimeLimitHolds) {
  Program program = two_logs("values = [[0.1, 0, 0], [0, 0.1, 0]]\ntrain = false");
  program.inputs[0].range = LegalRange{0, 1};
  for (const ClockKind clock : {ClockKind::wall, ClockKind::processor}) {
    const ProgramSearch search = {.seconds = 1, .clock = clock, .sites = {"log"}, .until = Until::at_site};
    const ProgramOutcome outcome = search_program(program, search, nullptr);
    EXPECT_EQ(outcome.stopped, "time");
    EXPECT_GE(outcome.seconds, 1);
    EXPECT_LT(outcome.seconds, 1.2);
  }
}

}  // namespace
}  // namespace finity
