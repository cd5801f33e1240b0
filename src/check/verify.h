// The analysis put to the test: the reference runs on inputs inside the premises,
// and every element it computes must lie in its cell, as must every relation the
// analysis relied on. One that does not is a bug of finity and is reported as such.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "check/analyze.h"
#include "exec/reference.h"

namespace finity {

struct VerifyOptions {
  int runs = 100;
  std::uint64_t seed = 0;
  double time_limit = 0;  // seconds, looked at between runs; 0: none
};

struct VerifyReport {
  int runs = 0;                        // ended, on inputs inside the premises
  int failed = 0;                      // of these, stopped by the reference with an error
  std::string first_failure = {};      // why
  std::size_t tensors = 0;             // compared with their ranges
  std::size_t elements = 0;            // in these
  std::size_t vacuous = 0;             // tensors of which nothing was claimed
  std::size_t skipped = 0;             // tensors after a failure that a finding had predicted
  std::vector<Note> unsupported = {};  // ops that the reference cannot run
};

// Inputs by name, weights by id.
struct Drawn {
  Inputs inputs = {};
  std::unordered_map<ValueId, Datum> weights = {};
};

// Draws number 0, 1, 2 are plain, all lower ends, all upper ends; the others mix ordinary and special values. Sizes
// that are not known are small numbers, the same for the same symbol. Throws Error naming an input of unknown rank.
Drawn draw_inside(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, int number);

// One run. Adds to the report; throws Error naming node, value, index and range when something leaves its range.
void verify_run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                VerifyReport& report);

VerifyReport verify(const Graph& graph, const Types& types, const Premises& premises, const Analysis& analysis,
                    const VerifyOptions& options = {});

// How the concrete tensor contradicts a relation of the abstract one; empty when it does not. `concrete` gives the
// elements of a source, null when they are not known.
std::string broken_fact(const AbsTensor& range, const Tensor& tensor,
                        const std::function<const Tensor*(ValueId)>& concrete);

}  // namespace finity
