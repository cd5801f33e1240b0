// Cutting tensors of any dtype into pieces along an axis and joining them again:
// what loops over tensors and ops on sequences do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace finity {

// Elements [begin, begin + length) of the axis; throws Error when they are not there.
Tensor take_range(const Tensor& tensor, std::size_t axis, std::int64_t begin, std::int64_t length);
// One index of the axis; the axis goes away.
Tensor take_at(const Tensor& tensor, std::size_t axis, std::int64_t index);

// At least one part. Sizes must agree except along the axis.
Tensor concatenated(std::span<const Tensor> parts, std::size_t axis);
// At least one part, all of the same shape, along a new axis.
Tensor stacked(std::span<const Tensor> parts, std::size_t axis);

}  // namespace finity
