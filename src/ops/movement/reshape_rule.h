// The shape that Reshape gives: 0 keeps a size, -1 takes what is left, and symbols that
// both sides have cancel.
#pragma once

#include "graph/type.h"
#include "ops/shared/shape_values.h"

namespace finity {

// `keep_zero`: 0 is a size like any other. Throws Error when the elements do not fit.
Shape reshaped_shape(const Type& in, const Entries& wanted, bool keep_zero);

}  // namespace finity
