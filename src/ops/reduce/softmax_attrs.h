// What rows a softmax is taken of, read once for evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <vector>

#include "ops/reduce/reduced_axes.h"
#include "ops/shared/shapes.h"
#include "ops/table/call.h"

namespace finity {

struct SoftmaxAttrs {
  std::int64_t axis = -1;
  bool flat = false;  // before opset 13: everything from the axis on is one row

  std::size_t first(std::size_t rank) const { return normalize_axis(axis, rank); }
  AxisSet axes(std::size_t rank) const {
    AxisSet result(rank, false);
    for (std::size_t i = first(rank); i < (flat ? rank : first(rank) + 1); ++i) result[i] = true;
    return result;
  }
};

inline SoftmaxAttrs read_softmax(const Call& call) {
  const bool flat = call.version() < 13;
  return {.axis = call.integer("axis", flat ? 1 : -1), .flat = flat};
}

}  // namespace finity
