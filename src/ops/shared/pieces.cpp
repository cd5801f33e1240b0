#include "ops/shared/pieces.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Copies indices [from_begin, from_begin + length) of one axis to to_begin of the other.
void copy_range(const Tensor& from, std::int64_t from_begin, Tensor& to, std::int64_t to_begin, std::int64_t length,
                std::size_t axis) {
  const AxisView source(from.dims(), axis);
  const AxisView target(to.dims(), axis);
  const auto count = static_cast<std::size_t>(length * source.inner);
  with_storage(from.dtype(), [&]<class S>() {
    const std::span<const S> elements = stored<S>(from);
    const std::span<S> result = mutable_stored<S>(to);
    for (std::int64_t o = 0; o < source.outer && count > 0; ++o) {
      std::ranges::copy(elements.subspan(source.at(o, from_begin, 0), count),
                        result.subspan(target.at(o, to_begin, 0)).begin());
    }
  });
}

void check_joinable(const Tensor& first, const Tensor& part, std::size_t axis) {
  if (part.dtype() != first.dtype()) {
    throw Error("tensors to be joined are " + std::string(name(first.dtype())) + " and " +
                std::string(name(part.dtype())));
  }
  Dims expected = first.dims();
  if (part.rank() == expected.size()) expected[axis] = part.dim(axis);
  if (part.dims() != expected) {
    throw Error("tensors to be joined have shapes " + to_string(first.dims()) + " and " + to_string(part.dims()));
  }
}

}  // namespace

Tensor take_range(const Tensor& tensor, std::size_t axis, std::int64_t begin, std::int64_t length) {
  if (axis >= tensor.rank() || begin < 0 || length < 0 || begin > tensor.dim(axis) - length) {
    throw Error("elements from " + std::to_string(begin) + " of axis " + std::to_string(axis) + " are outside " +
                to_string(tensor.dims()));
  }
  Dims dims = tensor.dims();
  dims[axis] = length;
  Tensor result(tensor.dtype(), std::move(dims));
  copy_range(tensor, begin, result, 0, length, axis);
  return result;
}

Tensor take_at(const Tensor& tensor, std::size_t axis, std::int64_t index) {
  const Tensor slice = take_range(tensor, axis, index, 1);
  Dims dims = slice.dims();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return slice.reshaped(std::move(dims));
}

Tensor concatenated(std::span<const Tensor> parts, std::size_t axis) {
  const Tensor& first = parts.front();
  if (axis >= first.rank()) throw Error("tensors of shape " + to_string(first.dims()) + " have no such axis to join");
  Dims dims = first.dims();
  dims[axis] = 0;
  for (const Tensor& part : parts) {
    check_joinable(first, part, axis);
    if (__builtin_add_overflow(dims[axis], part.dim(axis), &dims[axis])) throw Error("joined tensor is too large");
  }
  Tensor result(first.dtype(), std::move(dims));
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    copy_range(part, 0, result, at, part.dim(axis), axis);
    at += part.dim(axis);
  }
  return result;
}

Tensor stacked(std::span<const Tensor> parts, std::size_t axis) {
  const Tensor& first = parts.front();
  std::vector<Tensor> slices;
  slices.reserve(parts.size());
  for (const Tensor& part : parts) {
    if (part.dims() != first.dims()) {
      throw Error("tensors to be stacked have shapes " + to_string(first.dims()) + " and " + to_string(part.dims()));
    }
    Dims dims = part.dims();
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(std::min(axis, dims.size())), 1);
    slices.push_back(part.reshaped(std::move(dims)));
  }
  return concatenated(slices, axis);
}

}  // namespace finity
