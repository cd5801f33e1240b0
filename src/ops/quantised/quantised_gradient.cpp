#include "ops/quantised/quantised_gradient.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

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

void refuse_narrow(const BuildCall& call, std::size_t operand) {
  if (call.wanted(operand)) throw Unsupported("the derivative by a number of 8 bits or less is not known");
}

// What arrives times what the scales, operand `scale`, multiplied: with scales of 1 the op gives that.
ValueId times_numbers(BuildCall& call, std::size_t scale) {
  std::vector<ValueId> inputs = call.inputs();
  inputs[scale] = call.ones_like(call.in(scale));
  const ValueId numbers = call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front();
  return call.cast(call.product(call.grad(0), numbers), call.in_type(scale).dtype);
}

}  // namespace

void dequantize_gradient(BuildCall& call) {
  refuse_narrow(call, 0);
  if (call.wanted(1)) call.give(1, sum_by_scale(call, times_numbers(call, 1), call.in(1)));
}

void gather_blocks_gradient(BuildCall& call) {
  refuse_narrow(call, 0);
  refuse_narrow(call, 3);
  if (!call.wanted(2)) return;
  const ValueId scales = call.in(2);
  const std::optional<Dims> result = call.dims(call.out(0)), sizes = call.dims(scales), data = call.dims(call.in(0));
  if (!result || !sizes || !data) throw Unsupported("the gradient needs the sizes of the table, which are not known");
  const std::size_t rank = data->size();
  const std::size_t gathered = normalize_axis(call.integer("gather_axis"), rank);
  const std::size_t axis = normalize_axis(call.integer("quantize_axis"), rank);
  // The table as it is meant, with packed numbers taken apart as they are in the result.
  Dims dims = *data;
  if (gathered + 1 < rank) dims.back() = result->back();
  else if (call.in_type(0).dtype == DType::uint8) dims.back() *= 8 / call.integer("bits");
  const double zero[] = {0};
  const ValueId table =
      call.add("ConstantOfShape", {call.ints(dims)},
               with_attr("value", make_constant(from_elements<double>(call.in_type(2).dtype, {1}, zero))));
  const ValueId rows =
      gather_gradient(call, times_numbers(call, 2), table, call.in(1), static_cast<std::int64_t>(gathered));
  const std::int64_t given = call.integer("block_size"), block = given == 0 ? dims[axis] : given;
  const std::int64_t blocks = block == 0 ? 0 : (dims[axis] + block - 1) / block;
  const ValueId sums =
      sum_away(call, in_blocks(call, rows, axis, blocks, block), {static_cast<std::int64_t>(axis) + 1});
  // Float data may share a scale along other axes, too.
  std::vector<std::int64_t> shared;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis && sizes->at(i) == 1 && dims[i] != 1) shared.push_back(static_cast<std::int64_t>(i));
  }
  call.give(2, sum_over(call, sums, shared));
}

}  // namespace finity
