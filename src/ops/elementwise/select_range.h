// Range rules of Where and of the elementwise extremes and sums.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_where(RangeCall& call);
void range_max(RangeCall& call);
void range_min(RangeCall& call);
void range_sum(RangeCall& call);
void range_mean(RangeCall& call);

}  // namespace finity
