// Range rules of activations that two domains have.
#pragma once

#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"

namespace finity {

void range_swish(RangeCall& call);       // x * sigmoid(alpha * x)
void range_split_gelu(RangeCall& call);  // half of x + bias times gelu of the other half

// F of x + bias where the bias is there.
template <Range (*F)(DType, const Range&, int)>
void range_biased(RangeCall& call) {
  if (!call.has_range(1)) return range_elementwise<F>(call);
  range_binary(
      call, [&](const Range& x, const Range& bias, DType dtype) { return F(dtype, add(dtype, x, bias), call.ulps()); });
}

}  // namespace finity
