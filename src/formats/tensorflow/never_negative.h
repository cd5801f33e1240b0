// Variables that never become negative: they start at zero or above, and whatever a step stores in them is not negative
// as long as they are not. Adam's and RMSProp's means of squares, Adagrad's sums, counts of elements, and those that
// people write by hand (v <- 0.999 v + 0.001 g^2). An invariant of training; a checkpoint is taken to come from it.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

class NeverNegative {
 public:
  using Nodes = std::unordered_map<std::string_view, const NodeDef*>;  // by name; must outlive this
  // `least` says the smallest element of a Const, NaN when it is not known.
  NeverNegative(const GraphDef& graph, const Nodes& nodes, std::function<double(const NodeDef&)> least);

  // That of the node of this name, given that it does not start below zero.
  bool holds(std::string_view variable) const { return !negative_.contains(variable); }

 private:
  std::string_view variable_of(std::string_view input) const;
  bool keeps(const NodeDef& write, std::size_t place) const;
  bool not_negative(std::string_view input, int depth) const;
  bool op_not_negative(const NodeDef& node, int depth) const;

  const Nodes& nodes_;
  std::function<double(const NodeDef&)> least_;
  std::unordered_set<std::string_view> negative_ = {};                             // may become so
  mutable std::unordered_map<std::string_view, std::string_view> variables_ = {};  // by node that gives one on
  mutable std::size_t visits_ = 0;
};

}  // namespace finity::tensorflow
