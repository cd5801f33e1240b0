// One pass over the elements of a constant, without copying those that the file
// stores plainly: weights are large, and several questions need only this.
#pragma once

#include "domain/range.h"
#include "graph/constant.h"

namespace finity {

// The finite values' hull and which of NaN and the infinities occur. Nothing for strings and complex numbers, nor
// when the elements are missing.
Range scan_constant(const Constant& constant);

}  // namespace finity
