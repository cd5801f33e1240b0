// One use of an op, without a graph around it: which op in which version, with which
// attributes, and which operands and results are there. The calls that inference,
// evaluation, range rules, gradients and lowerings get are all made from it, by
// engines from a node of a graph (`call_of`), by rules that ask another op from
// nothing but a name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace finity {

// How many operands or results a use of an op has, and which of them are left out.
class Places {
 public:
  Places() = default;
  explicit Places(std::size_t count) : count_(count) {}
  explicit Places(std::span<const ValueId> ids) : count_(ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!ids[i].valid()) omit(i);
    }
  }

  std::size_t count() const { return count_; }
  bool has(std::size_t i) const {
    return i < count_ && (omitted_.empty() || std::ranges::find(omitted_, i) == omitted_.end());
  }
  void omit(std::size_t i) { omitted_.push_back(i); }

 private:
  std::size_t count_ = 0;
  std::vector<std::size_t> omitted_;  // mostly empty
};

struct OpCall {
  const OpDef* op = nullptr;
  int version = 1;               // of its domain's operator set
  const Attrs* attrs = nullptr;  // outlives the call; null: none
  Places inputs = {};
  Places outputs = {};
  const Graph* bodies = nullptr;  // where the bodies lie that its attributes name; null: it has none
  int loops = 0;                  // bodies around it that may run any number of times
};

OpCall call_of(const Graph& graph, const Node& node);
// A node of the op in an operator set of the default domain, without operands, results and a place. Ops of other
// domains have one version.
Node node_of(const OpDef& op, int opset);
// An op of the default domain, or "domain:Name"; throws Error when the table has none of that name.
const OpDef& op_named(std::string_view name);

}  // namespace finity
