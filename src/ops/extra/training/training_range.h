// Range rules of the optimisers.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_adagrad(RangeCall& call);
void range_adam(RangeCall& call);
void range_momentum(RangeCall& call);

}  // namespace finity
