// Runs of the bench with a search that is made up: duplicates share a run, results add up, and what was written down is
// gone on with.
#include <gtest/gtest.h>

#include "bench/bench_report.h"
#include "bench/bench_run.h"

namespace finity {
namespace {

DigitData two_digits() {
  return {.images = Tensor(DType::float32, {2, 28, 28}),
          .labels = Tensor::vector_of(std::vector<std::int64_t>{0, 1}),
          .images_source = "digits.images",
          .labels_source = "digits.labels"};
}

BenchOptions options_for(std::vector<std::string> only) {
  return {.only = std::move(only), .strategies = {Strategy::plain, Strategy::automatic}, .seeds = 2, .limit = 10};
}

// Hits in two seconds, but plain training only with the first seed and in eight.
ProgramOutcome made_up(const ProgramSearch& search) {
  const bool plain = search.strategy == Strategy::plain;
  const bool hit = !plain || search.seed == 0;
  const double seconds = plain ? 8.0 : 2.0;
  return {
      .hit = hit, .confirmed = hit, .seconds = seconds, .first_seconds = seconds, .node_name = search.sites.front()};
}

std::vector<BenchRun> all_runs(const BenchOptions& options, int& searches) {
  Bench bench(two_digits(), [&](const Program&, const ProgramSearch& search) {
    ++searches;
    return made_up(search);
  });
  std::vector<BenchRun> runs = planned_runs(options);
  for (BenchRun& run : runs) bench.run(run);
  return runs;
}

TEST(BenchRuns, DuplicatesShareARun) {
  int searches = 0;
  const std::vector<BenchRun> runs = all_runs(options_for({"21", "30", "60", "52"}), searches);
  EXPECT_EQ(runs.size(), 16U);
  EXPECT_EQ(searches, 8);  // 52 has another rate
  EXPECT_EQ(runs[4].bug, "30");
  EXPECT_EQ(runs[4].seconds, runs[0].seconds);
}

TEST(BenchRuns, BugsOfOneProgramAreSearchedApartUnlessItIsOnlyTrained) {
  int searches = 0;
  const std::vector<BenchRun> runs = all_runs(options_for({"2"}), searches);
  ASSERT_EQ(runs.size(), 8U);
  EXPECT_EQ(searches, 6);
  EXPECT_EQ(runs.front().node, "log");
  EXPECT_TRUE(runs.front().at_bug);
  // 2b, trained plainly: the run of 2a, which failed at the other logarithm.
  EXPECT_EQ(runs[4].node, "log");
  EXPECT_TRUE(runs[4].hit);
  EXPECT_FALSE(runs[4].at_bug);
  EXPECT_EQ(runs[4].own_seconds, 0);
  EXPECT_EQ(runs.back().node, "log_not");
}

TEST(BenchRuns, MissesCountWithTheLimit) {
  int searches = 0;
  const BenchOptions options = options_for({"3"});
  const std::vector<BenchRun> runs = all_runs(options, searches);
  const BenchReport report = bench_report(options, runs, {{"3", {.found = true, .repair_proved = true}}});
  const Tally& plain = report.totals.at("default");
  EXPECT_EQ(plain.hits, 1);
  EXPECT_DOUBLE_EQ(plain.mean_hit(), 8);
  EXPECT_DOUBLE_EQ(plain.mean_paid(), 9);
  EXPECT_DOUBLE_EQ(report.totals.at("auto").mean_paid(), 2);
  const std::string text = bench_text(report);
  EXPECT_NE(text.find("4.5 times faster"), std::string::npos) << text;
  EXPECT_NE(text.find("10/10 24.66 s"), std::string::npos) << "the paper's number stands beside ours: " << text;
}

TEST(BenchRuns, AFailureIsToldAndEndsNothing) {
  Bench bench(two_digits(), [](const Program&, const ProgramSearch&) -> ProgramOutcome { throw Error("no engine"); });
  BenchRun run = planned_runs(options_for({"3"})).front();
  bench.run(run);
  EXPECT_FALSE(run.hit);
  EXPECT_EQ(run.error, "no engine");
}

TEST(BenchRuns, WhatWasRunBeforeServesItsDuplicates) {
  int searches = 0;
  const std::vector<BenchRun> before = all_runs(options_for({"21"}), searches);
  searches = 0;
  Bench bench(two_digits(), [&](const Program&, const ProgramSearch& search) {
    ++searches;
    return made_up(search);
  });
  for (const BenchRun& run : before) bench.remember(run);
  std::vector<BenchRun> runs = planned_runs(options_for({"30"}));
  for (BenchRun& run : runs) bench.run(run);
  EXPECT_EQ(searches, 0);
  EXPECT_EQ(runs.front().hit, before.front().hit);
  // Another clock is another question.
  runs.front().clock = "wall";
  bench.run(runs.front());
  EXPECT_EQ(searches, 1);
}

TEST(BenchRuns, WrittenRunsAreTheSameQuestions) {
  int searches = 0;
  const BenchOptions options = options_for({"4"});
  const std::vector<BenchRun> runs = all_runs(options, searches);
  const std::vector<BenchRun> read = runs_from_json_lines(to_json_lines(runs), "runs");
  ASSERT_EQ(read.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_TRUE(read[i].asks_the_same(planned_runs(options)[i]));
    EXPECT_EQ(read[i].hit, runs[i].hit);
  }
  EXPECT_FALSE(read[0].asks_the_same(read[1]));
  EXPECT_THROW(runs_from_json_lines("{\"bug\": 3}\n", "runs"), Error);
}

TEST(BenchRuns, SweepChangesOneParameterAtATime) {
  const std::vector<BenchRun> runs = planned_runs({.seeds = 1, .sweep = true});
  EXPECT_EQ(runs.size(), 27U);
  for (const BenchRun& run : runs) EXPECT_TRUE(run.epsilon == 0.15 || run.switch_rate == 0.05);
}

TEST(BenchRuns, UnknownBugsAreNamed) { EXPECT_THROW(chosen_bugs({"64"}), Error); }

}  // namespace
}  // namespace finity
