// Which elements of a tensor belong together when some of its axes are reduced:
// for Reduce*, and for ops that normalise over a set of axes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// One flag per axis of the tensor: is it reduced?
using AxisSet = std::vector<bool>;

// Throws Error on an axis outside the rank; an axis named twice counts once.
AxisSet axis_set(std::span<const std::int64_t> axes, std::size_t rank);

// Sizes after the reduction; D is Dim or std::int64_t.
template <class D>
std::vector<D> reduced_sizes(const std::vector<D>& sizes, const AxisSet& reduced, bool keep, const D& one) {
  std::vector<D> result;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!reduced[axis]) result.push_back(sizes[axis]);
    else if (keep) result.push_back(one);
  }
  return result;
}

// Group g consists of the elements starts[g] + offsets[i]. Groups are in row-major
// order of the axes that stay, their elements in row-major order of the reduced ones.
struct Groups {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> offsets;

  std::int64_t length() const { return static_cast<std::int64_t>(offsets.size()); }
  std::size_t at(std::size_t group, std::int64_t i) const {
    return static_cast<std::size_t>(starts[group] + offsets[static_cast<std::size_t>(i)]);
  }
};
Groups group_elements(const Dims& dims, const AxisSet& reduced);

}  // namespace finity
