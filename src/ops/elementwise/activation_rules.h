// Range rules of activations that two domains have.
#pragma once

#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"

namespace finity {

void range_swish(RangeCall& call);     // x * sigmoid(alpha * x)
void range_softplus(RangeCall& call);  // log(1 + exp(x))

}  // namespace finity
