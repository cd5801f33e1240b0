// Resize and Upsample: weighted sums along each axis whose weights follow from coordinates. Libraries compute these in
// different orders, so where a coordinate is no exact number it is taken to lie a few units in the last place to either
// side: a nearest element that changes within that is one of both.
#pragma once

#include <optional>
#include <vector>

#include "fuzz/box.h"

namespace finity::fuzz {

// The result; nothing when the op is no such op or its operands do not tell.
std::optional<Box> enclose_resampled(const Graph& graph, const Node& node, const std::vector<Box>& operands);

}  // namespace finity::fuzz
