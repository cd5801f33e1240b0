// Range rules of integer and quantized products: zero points are subtracted, the
// integers summed exactly (in 32 bits, which wrap), the sums scaled and, where the
// result is quantized again, rounded and saturated.
#pragma once

#include "ops/table/hazard.h"
#include "ops/table/range_call.h"

namespace finity {

// v / scale is in `v`: rounded, the zero point added, saturated.
Range requantized(DType dtype, const Range& v, const Range& zero_point);

void range_matmul_integer(RangeCall& call);
void range_conv_integer(RangeCall& call);
void range_qlinear_matmul(RangeCall& call);
void range_qlinear_conv(RangeCall& call);
void range_qgemm(RangeCall& call);
void range_matmul_integer_to_float(RangeCall& call);
void range_dynamic_quantize_matmul(RangeCall& call);

}  // namespace finity
