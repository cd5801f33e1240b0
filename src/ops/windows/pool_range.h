// Range rules of pools. Channels and images stay apart; where in an image an element lies is forgotten.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_max_pool(RangeCall& call);
void range_average_pool(RangeCall& call);
void range_lp_pool(RangeCall& call);
void range_global_max_pool(RangeCall& call);
void range_global_average_pool(RangeCall& call);
void range_global_lp_pool(RangeCall& call);
void range_max_unpool(RangeCall& call);

}  // namespace finity
