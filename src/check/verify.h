// The analysis put to the test: the reference runs on inputs inside the premises,
// and every element it computes must lie in its cell, as must every relation the
// analysis relied on. One that does not is a bug of finity and is reported as such.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "check/analyze.h"
#include "check/judge.h"
#include "exec/reference.h"

namespace finity {

// How the message begins when a run leaves a range that was proved.
inline constexpr std::string_view kVerificationFailed = "verification failed: ";

struct VerifyOptions {
  int runs = 100;
  std::uint64_t seed = 0;
  double time_limit = 0;  // seconds for all runs together; 0: none
};

// Inputs by name, weights by id, and how they are run.
struct Drawn {
  Inputs inputs = {};
  std::unordered_map<ValueId, Datum> weights = {};
  bool flush_subnormals = false;
};

// An input on which a finding came true.
struct FailingRun {
  std::size_t finding = 0;  // index in Analysis::findings
  std::shared_ptr<const Drawn> drawn = {};
  std::vector<Datum> outputs = {};  // of the model, by the reference; empty when it stopped
  std::string what = {};            // "element [2] of 'y' is -Inf"
};

struct VerifyReport : Judged {
  int wanted = 0;                          // runs that were asked for
  int runs = 0;                            // ended, on inputs inside the premises
  int failed = 0;                          // of these, stopped by the reference with an error
  std::vector<FailingRun> witnesses = {};  // the first for each finding that came true
  std::string first_failure = {};          // why
  bool time_up = false;                    // the time limit came before the last run's end
  std::vector<Note> unsupported = {};      // ops that the reference cannot run
};

// Draws number 0, 1, 2 are plain, all lower ends, all upper ends; the others mix ordinary and special values. Sizes
// that are not known are small numbers, the same for the same symbol. Throws Error naming an input of unknown rank.
Drawn draw_inside(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, int number);

// Elements of inputs and weights as plain numbers.
using Numbers = std::map<ValueId, std::vector<double>>;
// The nearest elements inside the premises, of the sizes that `like` has.
Drawn fit_inside(const Graph& graph, const Types& types, const Premises& premises, const Drawn& like,
                 const Numbers& wished, Rng& rng);
// The ends between which each element may lie.
struct Box {
  std::vector<double> lo = {}, hi = {};
};
Box box_of(const AbsTensor& range, const Dims& dims);

// One run and its outputs. Adds to the report (witnesses without what was drawn); throws Error naming node, value,
// index and range when something leaves its range, and TimeUp when the thread's TimeLimit passes.
std::vector<Datum> verify_run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                              VerifyReport& report);

VerifyReport verify(const Graph& graph, const Types& types, const Premises& premises, const Analysis& analysis,
                    const VerifyOptions& options = {});

// What fails for every input, or as far as the elements are known whatever the inputs are (a literal zero divisor, a
// NaN constant that reaches an output), shown by running the model once. Gives up quietly after `seconds`.
std::vector<FailingRun> confirm_certain(const Graph& graph, const Types& types, const Premises& premises,
                                        const Analysis& analysis, double seconds);

}  // namespace finity
