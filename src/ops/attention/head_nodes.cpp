#include "ops/attention/head_nodes.h"

#include <vector>

#include "base/error.h"
#include "ops/movement/move_gradient.h"

namespace finity {

ValueId split_heads(BuildCall& call, ValueId packed, std::int64_t heads) {
  return transpose(call, reshape_to(call, packed, {0, 0, heads, -1}), {0, 2, 1, 3});
}

ValueId packed_heads(BuildCall& call, ValueId heads) {
  return reshape_to(call, transpose(call, heads, {0, 2, 1, 3}), {0, 0, -1});
}

std::int64_t size_of_axis(const BuildCall& call, ValueId value, std::size_t axis) {
  const Type& type = call.type(value);
  if (!type.ranked || axis >= type.shape.size() || !type.shape[axis].known()) {
    throw Unsupported("the gradient needs the number and size of the heads, which are not known");
  }
  return type.shape[axis].size;
}

ValueId repeated_heads(BuildCall& call, ValueId heads, std::int64_t all) {
  const std::int64_t own = size_of_axis(call, heads, 1);
  if (own == all || own == 0) return heads;
  std::vector<std::int64_t> times(call.rank(heads) + 1, 1), sizes(call.rank(heads), 0);
  times[2] = all / own;
  sizes[1] = all;
  const ValueId lone = call.add("Unsqueeze", {heads, call.ints({2})});
  const ValueId repeated = call.add("Expand", {lone, call.ints(std::move(times))});
  // The axes behind the heads have moved on by one, so that sizes cannot be taken from the same places.
  sizes.back() = size_of_axis(call, heads, sizes.size() - 1);
  sizes[2] = -1;
  return reshape_to(call, repeated, std::move(sizes));
}

ValueId length_of(BuildCall& call, ValueId heads) {
  return call.add("Gather", {call.add("Shape", {heads}), call.scalar(2, DType::int64)});
}

ValueId counted_to(BuildCall& call, ValueId length) {
  return call.add("Range", {call.scalar(0, DType::int64), length, call.scalar(1, DType::int64)});
}

}  // namespace finity
