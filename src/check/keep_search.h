// Mixed precision by proof: the nodes that must stay in their own format so that
// the rest of the model can be converted and every hazard that was proved before is
// proved again. Found by growing the set from findings back along their causes, then
// leaving out what is not needed; each step converts and analyses the whole model.
#pragma once

#include <string>
#include <vector>

#include "check/analyze.h"
#include "check/convert.h"

namespace finity {

struct KeepOptions {
  CheckOptions check = {};
  double time_limit = 10;  // seconds, looked at between analyses
  int max_runs = 60;
};

struct KeepResult {
  NodeSet keep = {};
  bool proved = false;      // with these kept, nothing is worse than in the model as it is
  bool minimal = false;     // none of them can be left out
  std::size_t excused = 0;  // findings of the model as it is: no conversion causes them
  int runs = 0;             // analyses
  std::string why = {};     // not proved: what stands in the way
};

// `graph` is the model as read, `types` its types under `bindings`.
KeepResult find_kept_nodes(const Graph& graph, const Types& types, const Bindings& bindings, const Contract& contract,
                           DType target, const KeepOptions& options = {});

}  // namespace finity
