#include "ops/quantised/quantised_gradient.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

// [.., k, ..] as [.., blocks, block, ..], with zeros where the last block is not full.
ValueId in_blocks(BuildCall& call, ValueId x, std::size_t axis, std::int64_t blocks, std::int64_t block) {
  Dims dims = *call.dims(x);
  std::vector<std::int64_t> pads(2 * dims.size(), 0);
  pads[dims.size() + axis] = blocks * block - dims[axis];
  if (pads[dims.size() + axis] != 0) x = call.add("Pad", {x, call.ints(std::move(pads))});
  dims[axis] = blocks;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, block);
  return reshape_to(call, x, std::move(dims));
}

// The sum of what belongs to each scale.
ValueId sum_by_scale(BuildCall& call, ValueId x, ValueId scale) {
  const std::optional<Dims> sizes = call.dims(scale);
  if (!sizes) throw Unsupported("the gradient needs the sizes of the scale, which are not known");
  if (element_count(*sizes) == 1) return sum_all(call, x, scale);
  const std::size_t rank = call.rank(x), axis = normalize_axis(call.integer("axis", 1), rank);
  if (sizes->size() == 1) {
    std::vector<std::int64_t> others;
    for (std::size_t i = 0; i < rank; ++i) {
      if (i != axis) others.push_back(static_cast<std::int64_t>(i));
    }
    return sum_away(call, x, others);
  }
  const std::int64_t block = call.integer("block_size", 0);
  if (!call.dims(x) || block == 0) throw Unsupported("the gradient needs the sizes of blocks, which are not known");
  return sum_away(call, in_blocks(call, x, axis, sizes->at(axis), block), {static_cast<std::int64_t>(axis) + 1});
}

}  // namespace

void dequantize_gradient(BuildCall& call) {
  if (call.wanted(0)) throw Unsupported("the derivative by a number of 8 bits or less is not known");
  if (!call.wanted(1)) return;
  // With a scale of 1 the op gives the numbers that the scale multiplies.
  std::vector<ValueId> inputs = call.inputs();
  inputs[1] = call.ones_like(call.in(1));
  const ValueId numbers = call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front();
  const ValueId parts = call.cast(call.product(call.grad(0), numbers), call.in_type(1).dtype);
  call.give(1, sum_by_scale(call, parts, call.in(1)));
}

}  // namespace finity
