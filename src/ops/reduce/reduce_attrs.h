// What a reduction reduces, read once for inference, evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <optional>
#include <vector>

#include "ops/reduce/reduced_axes.h"
#include "ops/table/call.h"

namespace finity {

struct ReduceAttrs {
  std::vector<std::int64_t> axes = {};  // as they are listed
  bool keep = true;                     // reduced axes stay, with size 1
  bool reduces = true;                  // false: no axes are listed, and that means none instead of all

  // One flag per axis. Throws Error on an axis outside the rank.
  AxisSet reduced(std::size_t rank) const;
};

// Newer versions have the axes as an operand: `operand` are its elements, nullopt where they are not known. Older ones
// have an attribute. Nullopt: not known.
std::optional<ReduceAttrs> read_reduce(const Call& call, const std::optional<std::vector<std::int64_t>>& operand);

}  // namespace finity
