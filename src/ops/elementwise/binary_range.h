// Range rules of the arithmetic ops in binary.cpp.
#pragma once

#include "ops/table/hazard.h"
#include "ops/table/range_call.h"

namespace finity {

void range_add(RangeCall& call);
void range_subtract(RangeCall& call);
void range_multiply(RangeCall& call);
void range_divide(RangeCall& call);
void range_modulo(RangeCall& call);
void range_power(RangeCall& call);
void range_bits(RangeCall& call);  // bitwise and, or, xor
void range_shift(RangeCall& call);

Hazards division_hazards();
Hazards modulo_hazards();

}  // namespace finity
