#include "ops/reduce/reduce_attrs.h"

namespace finity {

AxisSet ReduceAttrs::reduced(std::size_t rank) const {
  return axes.empty() ? AxisSet(rank, reduces) : axis_set(axes, rank);
}

std::optional<ReduceAttrs> read_reduce(const Call& call, const std::optional<std::vector<std::int64_t>>& operand) {
  if (call.has_input(1) && !operand) return std::nullopt;
  ReduceAttrs attrs{.axes = call.has_input(1) ? *operand : call.integers("axes"),
                    .keep = call.integer("keepdims") != 0};
  // Only newer versions have it, and not every domain's.
  attrs.reduces = !attrs.axes.empty() || call.integer("noop_with_empty_axes", 0) == 0;
  return attrs;
}

}  // namespace finity
