// Runs of the bench: every bug with every strategy and seed, each once; exact duplicates share a run. What was measured
// is plain data that can be written down and gone on with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/grist.h"
#include "bench/static_check.h"
#include "program/search_program.h"

namespace finity {

// One search of one bug.
struct BenchRun {
  std::string bug = {};
  std::string strategy = {};  // "auto"
  std::uint64_t seed = 0;
  double epsilon = 0.15;
  double switch_rate = 0.05;
  double limit = 0;                 // seconds it was given
  std::string clock = "processor";  // what seconds are: "processor" (of the searching process) or "wall"
  std::string data = {};            // what it learned: "synthetic" or "MNIST"
  bool strict = false;              // only a failure at the bug's own operation counts; else any, as in the paper

  // What came of it.
  bool hit = false;
  bool confirmed = false;
  double seconds = 0;
  double wall_seconds = 0;
  double own_seconds = 0;  // until the bug's own operation failed, which others may have done before; 0: it did not
  std::uint64_t iterations = 0;
  std::uint64_t steps = 0;
  std::string node = {};     // that made the first NaN or Inf
  bool at_bug = false;       // which is the bug's own operation, or its derivative
  std::string closest = {};  // how near it came, when it missed
  std::string engine = {};
  std::string error = {};  // why it could not be run

  // The same question: all above what came of it.
  bool asks_the_same(const BenchRun& other) const;
};

struct BenchOptions {
  std::vector<std::string> only = {};  // ids of bugs, or numbers of programs; empty: all
  std::vector<Strategy> strategies = {};
  int seeds = 1;
  double limit = 30;
  ClockKind clock = ClockKind::processor;
  bool sweep = false;  // the paper's study of its two parameters instead of the whole
  bool strict = false;
  std::string data = "synthetic";
};

// The bugs that are asked for. Throws Error naming what is none.
std::vector<const GristBug*> chosen_bugs(const std::vector<std::string>& only);
// All runs that are asked for, in order.
std::vector<BenchRun> planned_runs(const BenchOptions& options);

using BenchSearch = std::function<ProgramOutcome(const Program&, const ProgramSearch&)>;

class Bench {
 public:
  Bench(DigitData digits, BenchSearch search) : digits_(std::move(digits)), search_(std::move(search)) {}

  // Fills in what came of it; a bug whose program, site and question were run before gets that result. Plain training
  // has no site: the bugs of a program share its run.
  void run(BenchRun& run);
  // A run of before, for its duplicates. Ignores what is no bug of this bench.
  void remember(const BenchRun& run);

 private:
  const Program& program_of_bug(const GristBug& bug);
  std::string key_of(const GristBug& bug, const BenchRun& run);

  DigitData digits_;
  BenchSearch search_;
  // One program at a time is kept: runs come bug by bug.
  std::string kept_id_ = {};
  Program kept_ = {};
  std::map<std::string, std::size_t> texts_ = {};  // programs by what makes two of them the same
  std::size_t kept_number_ = 0;
  std::map<std::string, BenchRun> done_ = {};  // by program, site and question
};

// One line of JSON per run, for going on later.
std::string to_json_lines(const std::vector<BenchRun>& runs);
// Throws Error naming file and line.
std::vector<BenchRun> runs_from_json_lines(std::string_view text, const std::string& file);

}  // namespace finity
