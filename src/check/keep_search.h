// Mixed precision by proof: the nodes that must stay in their own format so that
// the rest of the model can be converted and every hazard that was proved before is
// proved again. Found by growing the set from what is too large for the target and from
// findings along their causes, then leaving out what is not needed; each step converts
// and analyses the whole model, and the last one is the proof of the mixed model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/analyze.h"
#include "check/contract.h"
#include "check/convert.h"

namespace finity {

struct KeepOptions {
  CheckOptions check = {};
  double time_limit = 10;  // seconds of computing, looked at between analyses; 0: none
  int max_runs = 1000;     // analyses
  // Findings that matter; empty: all.
  std::function<bool(const Finding&)> counts = {};
};

struct KeepResult {
  NodeSet keep = {};
  bool proved = false;         // with these kept, nothing is worse than in the model as it is
  bool minimal = false;        // no single one can be left out; false also when there was no time to find out
  std::size_t candidates = 0;  // nodes that compute with numbers the conversion changes
  std::size_t excused = 0;     // findings of the model as it is: no conversion causes them
  int runs = 0;                // analyses
  std::string why = {};        // not proved: what stands in the way
};

// `graph` is the model as read, `types` its types under `bindings`.
KeepResult find_kept_nodes(const Graph& graph, const Types& types, const Bindings& bindings, const Contract& contract,
                           DType target, const KeepOptions& options = {});

}  // namespace finity
