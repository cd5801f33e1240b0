// Moving elements of any dtype without computing with them. Most layout ops are
// separable: which source element lands at [i, j, ...] is a sum of one offset per
// output axis, so an op only says how each axis walks through the source.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace finity {

// Elements in their storage type, strings included.
template <class S>
std::span<const S> stored(const Tensor& tensor) {
  if constexpr (std::is_same_v<S, std::string>) return tensor.strings();
  else return tensor.data<S>();
}
template <class S>
std::span<S> mutable_stored(Tensor& tensor) {
  if constexpr (std::is_same_v<S, std::string>) return tensor.mutable_strings();
  else return tensor.mutable_data<S>();
}

// One list per output axis; a negative offset marks a gap.
using AxisOffsets = std::vector<std::vector<std::int64_t>>;

// result[i, j, ...] = source[offsets[0][i] + offsets[1][j] + ...]. Gaps take the one element of `fill`, or
// zero (false, the empty string) without it.
Tensor pick(const Tensor& source, const AxisOffsets& offsets, const Tensor* fill = nullptr);

// 0, step, 2 * step, ...
std::vector<std::int64_t> ramp(std::int64_t count, std::int64_t step);
// Every axis as it is: the offsets that copy a tensor.
AxisOffsets plain_offsets(std::span<const std::int64_t> dims);

// Axes of the result in the order `order` of the source's.
Tensor transposed(const Tensor& source, std::span<const std::size_t> order);

// Tables over the indices of such a tensor can be built; throws Error when it is too large.
void require_computable(std::span<const std::int64_t> dims);

// An index counted from the end when negative; throws Error unless it is inside [0, size).
std::int64_t checked_index(std::int64_t index, std::int64_t size);

// Where ScatterElements writes and GatherElements reads, for each index: the index's own place in a tensor of
// these dims, with `axis` replaced by the index. Throws Error when one is outside.
std::vector<std::int64_t> element_positions(const Dims& dims, const Tensor& indices, std::int64_t axis);

// The last axis of `indices` holds tuples that index the axes from `batch` on: where each tuple's slice begins.
std::vector<std::int64_t> tuple_positions(const Dims& dims, const Tensor& indices, std::size_t batch);

}  // namespace finity
