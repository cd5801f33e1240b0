#include "ops/reduce/reduced_axes.h"

#include "base/error.h"
#include "ops/shared/shapes.h"

namespace finity {

AxisSet axis_set(std::span<const std::int64_t> axes, std::size_t rank) {
  AxisSet reduced(rank, false);
  for (const std::size_t axis : normalize_axes(axes, rank)) reduced[axis] = true;
  return reduced;
}

namespace {

// Positions of all indices over the axes whose flag equals `wanted`, the others at zero.
std::vector<std::int64_t> positions(const Dims& dims, const AxisSet& reduced, bool wanted) {
  Dims sizes = dims;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (reduced[axis] != wanted) sizes[axis] = 1;
  }
  const std::int64_t count = element_count(sizes);
  // Beside a zero dimension, the others of an empty tensor may be of any size.
  if (count > Tensor::kMaxBytes / 8) throw Error("reducing " + to_string(dims) + " gives too many elements");
  const std::vector<std::int64_t> strides = strides_of(dims);
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(count));
  for (IndexCounter at(sizes); at.valid(); at.next()) {
    std::int64_t position = 0;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) position += at.index()[axis] * strides[axis];
    result.push_back(position);
  }
  return result;
}

}  // namespace

Groups group_elements(const Dims& dims, const AxisSet& reduced) {
  Groups groups;
  groups.starts = positions(dims, reduced, false);
  if (!groups.starts.empty()) groups.offsets = positions(dims, reduced, true);
  return groups;
}

}  // namespace finity
