// Ops whose results do not fall when elements of their operand rise: movement of data, and maxima over windows and
// axes. The ends of a box go through eval, element by element, which no range rule over cells does as closely.
#pragma once

#include <optional>
#include <vector>

#include "fuzz/box.h"

namespace finity::fuzz {

// One box per output; nothing when the op is no such op, or says nothing of operands that are not finite. Outputs that
// are not of the operand's type (positions) have no cells.
std::optional<std::vector<Box>> enclose_monotone(const Graph& graph, const Node& node,
                                                 const std::vector<Box>& operands);

}  // namespace finity::fuzz
