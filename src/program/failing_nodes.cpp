#include "program/failing_nodes.h"

#include <algorithm>

namespace finity {

// A node fails when it makes NaN or infinities of finite operands. Infinities may also be meant: a mask puts them
// there, and moving them on is no failure, but making NaN of them is.
void FailingNodes::saw(NodeId id, const Node& node, Among operands, Among results) {
  if (!results.nan && !results.infinite) return;
  const auto is_blamed = [&](ValueId value) { return value.valid() && blamed_.contains(value); };
  const bool passed_on =
      operands.nan || std::ranges::any_of(node.inputs, is_blamed) || std::ranges::any_of(node.captures, is_blamed);
  const bool fails = !passed_on && (!operands.infinite || results.nan);
  if (fails) failing_.push_back(id);
  if (!fails && !passed_on) return;
  for (const ValueId value : node.outputs) {
    if (value.valid()) blamed_.insert(value);
  }
}

}  // namespace finity
