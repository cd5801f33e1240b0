// What `finity inspect` tells of a model, gathered before any of it is printed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

struct Summary {
  struct Port {
    std::string name, type;
    bool has_default = false;
  };
  struct OpCount {
    std::string op;  // with its domain unless it is the default one
    std::int64_t nodes = 0;
    std::string not_modelled;  // why, when it is not
  };

  std::vector<Port> inputs, outputs;
  std::vector<std::string> dynamic_dims;  // names of free dimensions of the inputs, "?" for unnamed ones
  std::int64_t parameters = 0;
  std::int64_t parameter_tensors = 0;
  std::uint64_t parameter_bytes = 0;
  std::int64_t missing_tensors = 0;                      // external weights that are not there
  std::map<std::string, std::int64_t> parameter_dtypes;  // elements per dtype
  std::map<std::string, std::int64_t> value_dtypes;      // values computed by nodes, per dtype
  std::int64_t nodes = 0, subgraphs = 0, untyped_values = 0;
  std::vector<OpCount> ops;  // most frequent first
};

Summary summarize(const Graph& graph, const Types& types);

}  // namespace finity
