// Range rules of activations that two domains have.
#pragma once

#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"

namespace finity {

void range_swish(RangeCall& call);       // x * sigmoid(alpha * x)
void range_split_gelu(RangeCall& call);  // half of x + bias times gelu of the other half

}  // namespace finity
