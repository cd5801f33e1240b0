// Which nodes must keep their format when a model is converted, so that everything
// that can be proved of the original can still be proved: the block list that
// converters to float16 ask for, with a proof that it suffices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/analyze.h"
#include "check/contract.h"
#include "check/convert.h"

namespace finity {

struct PrecisionOptions {
  CheckOptions check = {};
  Bindings bindings = {};
  double seconds = 10;  // for the search; the smallest set found by then is given
  // Findings that count; empty: all.
  std::function<bool(const Finding&)> counts = {};
};

struct PrecisionPlan {
  std::vector<NodeId> keep = {};        // of the original graph, in file order
  std::vector<std::string> names = {};  // as spelled in the file; a node without a name is called by its first output
  bool proved = false;                  // of the mixed model everything is proved
  bool as_good = false;                 // nothing is left that the original model does not have as well
  bool minimal = false;                 // no single node can be left out (false: time ran out before that was known)
  std::size_t analyses = 0;
  std::vector<Finding> left = {};  // what is not proved of the mixed model; ids as in Conversion::graph
  Conversion mixed = {};           // the model the final proof speaks of
};

// Throws Error as infer_types() and premises() do.
PrecisionPlan plan_precision(const Graph& original, const Types& types, DType target, const Contract& contract,
                             const PrecisionOptions& options = {});

// ['a', "b's"]: as a Python list, which is what converters take.
std::string block_list(const std::vector<std::string>& names);

}  // namespace finity
