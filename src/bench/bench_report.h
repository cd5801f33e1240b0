// What the bench tells: per bug the check's verdict and, per strategy, hits and times beside those of the paper.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_run.h"

namespace finity {

// Runs of one strategy on one bug, or on all.
struct Tally {
  int runs = 0;
  int hits = 0;
  int confirmed = 0;
  int at_bug = 0;           // hits at the bug's own operation
  double own_seconds = 0;   // until then, a sum over them
  int failed = 0;           // could not be run
  double hit_seconds = 0;   // sum over hits
  double paid_seconds = 0;  // the same, a miss counted with its limit
  double wall_seconds = 0;  // of all runs
  std::string missed = {};  // how near a miss came

  void add(const BenchRun& run);
  double mean_hit() const { return hits > 0 ? hit_seconds / hits : 0; }
  double mean_paid() const { return runs > 0 ? paid_seconds / runs : 0; }
};

struct BugRow {
  const GristBug* bug = nullptr;
  StaticVerdict verdict = {};
  std::map<std::string, Tally> strategies = {};  // by name
};

struct BenchReport {
  std::vector<BugRow> rows = {};
  std::vector<std::string> strategies = {};  // in the order they were asked for
  std::map<std::string, Tally> totals = {};
  int found = 0;  // by check
  int repairs_proved = 0;
  double check_seconds = 0;
  std::string data = {};
  double limit = 0;
  std::string clock = {};
  int seeds = 0;
  std::vector<BenchRun> runs = {};
  bool sweep = false;
};

BenchReport bench_report(const BenchOptions& options, const std::vector<BenchRun>& runs,
                         const std::map<std::string, StaticVerdict>& verdicts);

std::string bench_text(const BenchReport& report);
std::string bench_csv(const BenchReport& report);
std::string bench_markdown(const BenchReport& report);
std::string bench_json(const BenchReport& report);
// Throws Error naming the formats.
std::string bench_in_format(const BenchReport& report, std::string_view format);

}  // namespace finity
