// What sums and differences keep of the relations of their operands, and what they make of them.
#pragma once

#include <optional>

#include "ops/table/range_call.h"

namespace finity {

// The operand is one known number at every index.
std::optional<double> constant_of(const AbsTensor& x);
// The result has the operand's shape, so relations of rows and elements carry over.
bool keeps_shape(const RangeCall& call, const AbsTensor& x);

// x + y keeps what bounds x from below when y cannot be negative.
void carry_lower_bounds(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, AbsTensor& result);
// The largest of a row plus something: at least the largest plus the least addend.
void carry_row_max(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, bool minus, AbsTensor& result);
// Two terms of one maximum: where one is not the attained one, the other is.
void use_case_splits(const AbsTensor& a, const AbsTensor& b, DType dtype, AbsTensor& result);
// a - b where one is known to be at least the other.
void use_order(const AbsTensor& a, const AbsTensor& b, AbsTensor& result);
// a - b where b is a maximum of a.
void add_maximum_splits(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result);
// E[x^2] - E[x]^2 is not negative in real numbers; in floats it falls below zero by at most the rounding errors.
void use_variance(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result);

}  // namespace finity
