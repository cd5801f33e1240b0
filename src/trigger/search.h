// Looks for inputs, inside what was declared of them, on which findings of a check come true. Every input tried is run
// by the reference in the model's real formats, and what that run shows counts for all findings at once; gradients only
// say where to look next.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/check_graph.h"
#include "check/verify.h"
#include "exec/worker.h"

namespace finity {

struct SearchOptions {
  double seconds = 30;  // for all findings together
  std::uint64_t seed = 0;
  std::function<bool(const Finding&)> wanted = {};  // empty: all that are possible
  std::function<bool()> stop = {};                  // asked now and then; true ends the search with what it has
  // Engines on LibTorch, if they are there: one keeps the model, the other what distances and slopes are computed with.
  Worker* torch_runs = nullptr;
  Worker* torch = nullptr;
};

// How one finding's search ended.
struct SiteSearch {
  std::size_t finding = 0;
  bool confirmed = false;
  std::string closest = {};  // "0.25 away from <= 0"; "" where there is no distance
  std::string why_not = {};  // why no gradient could be followed; "" when one was
};

struct SearchResult {
  std::vector<FailingRun> witnesses = {};  // one for each confirmed finding, small, run again before it was kept
  std::vector<SiteSearch> sites = {};
  std::size_t runs = 0;  // of the model; each counts for all findings
  bool time_up = false;
  std::string failed = {};  // why the model could not be run at all
};

// Throws Error "verification failed: ..." when a run leaves the ranges that the analysis proved: a bug of finity.
SearchResult search_failures(const CheckedGraph& model, const SearchOptions& options);

}  // namespace finity
