// Range rules of comparisons, logic and Clip.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

// A truth value that may be true and may be false; neither: there are no elements.
Range truth(bool can_be_true, bool can_be_false);

void range_equal(RangeCall& call);
void range_greater(RangeCall& call);
void range_greater_or_equal(RangeCall& call);
void range_less(RangeCall& call);
void range_less_or_equal(RangeCall& call);
void range_and(RangeCall& call);
void range_or(RangeCall& call);
void range_xor(RangeCall& call);
void range_clip(RangeCall& call);

}  // namespace finity
