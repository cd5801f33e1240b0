// What variables start from: the value that Assign or AssignVariableOp gives them, and what that can be. Known forms
// are read (constants, draws, and sums and products of them); what is not understood may be any finite number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/tensorflow/graph_def.h"
#include "formats/tensorflow/never_negative.h"
#include "graph/initial_weight.h"

namespace finity::tensorflow {

class Initialisers {
 public:
  explicit Initialisers(const GraphDef& graph);

  // Of the variable that a node holds.
  InitialWeight::Support of(const NodeDef& variable, DType dtype) const;

 private:
  struct Bounds {
    double lo = 0;
    double hi = 0;
    bool drawn = false;  // at random
  };
  std::optional<Bounds> bounds(std::string_view input, int depth) const;
  std::optional<Bounds> bounds_of(const NodeDef& node, int depth) const;
  std::optional<Bounds> constant_bounds(const NodeDef& node) const;

  const GraphDef& graph_;
  std::unordered_map<std::string_view, const NodeDef*> nodes_;
  std::unordered_map<std::string_view, std::string_view> values_;  // variable -> what it is assigned first
  mutable std::unordered_map<std::string_view, std::optional<Bounds>> bounds_by_node_;
  std::optional<NeverNegative> never_negative_;
};

}  // namespace finity::tensorflow
