// Which ops a backend supports, found out by running small models: the cases of testdata/ops, which are built into the
// program. What was found is kept in the cache folder, until the library, the worker or the cases change.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/backends.h"
#include "graph/graph.h"

namespace finity {

// What becomes of an op's cases; a count each.
struct OpSupport {
  int ran = 0;
  int declined = 0;  // not implemented, says the library
  int refused = 0;
  int crashed = 0;  // or did not end

  bool any() const { return ran > 0; }
  bool all() const { return ran > 0 && declined == 0 && refused == 0 && crashed == 0; }
};

// By the op's name, with its domain before it unless that is ONNX's own.
using Support = std::map<std::string, OpSupport>;

// At most so many cases of each op are run; `tell` hears how far it is, from 0 to 1.
Support probe(Backend& backend, int cases_of_op, const std::function<void(double)>& tell);
// From the cache when it is there; else probes and keeps it.
Support support_of(Backend& backend, const std::function<void(double)>& tell, bool anew = false);

// Runs a model; where that is not supported, with all inputs but the first as constants, which is how many libraries
// want weights and parameters.
Answer run_either_way(Backend& backend, const Graph& graph, const NamedData& inputs);

std::string qualified_name(const OpDef& op);

}  // namespace finity
