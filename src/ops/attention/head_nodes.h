// Nodes over heads [batch, heads, length, size] that gradients of attention are written in.
#pragma once

#include <cstdint>

#include "ops/table/build_call.h"

namespace finity {

// From [batch, length, heads * size], and back.
ValueId split_heads(BuildCall& call, ValueId packed, std::int64_t heads);
ValueId packed_heads(BuildCall& call, ValueId heads);
// Size of an axis; throws Unsupported when it is not known.
std::int64_t size_of_axis(const BuildCall& call, ValueId value, std::size_t axis);
// Each head of axis 1 repeated, so that there are `all`.
ValueId repeated_heads(BuildCall& call, ValueId heads, std::int64_t all);
// The length, a scalar, and 0, 1, ... up to it.
ValueId length_of(BuildCall& call, ValueId heads);
ValueId counted_to(BuildCall& call, ValueId length);

}  // namespace finity
