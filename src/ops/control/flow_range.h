// Range rules of the ops that run subgraphs.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_if(RangeCall& call);
void range_loop(RangeCall& call);
void range_scan(RangeCall& call);
void range_sequence_map(RangeCall& call);

}  // namespace finity
