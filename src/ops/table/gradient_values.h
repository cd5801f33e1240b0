// What gradients are made of that flow through tensors and sequences alike.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

// What tensors, and the items of sequences and optionals, are.
const Type& innermost(const Type& type);
// Whether values of the type have a gradient: floats, or sequences of them. That is a sequence of as many tensors.
bool holds_floats(const Type& type);
bool is_sequence(const Type& type);
// The sum of two gradients of one value.
ValueId sum_of_gradients(NodeWriter& writer, ValueId a, ValueId b);

}  // namespace finity
