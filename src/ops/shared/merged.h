// What optimisers that merge neighbouring nodes change: a constant factor moves from an
// operand behind the sum of products, or from behind a product into its weights. The
// real result is the same; what overflows or underflows on the way is not.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

// Operands 0 and 1 are multiplied and summed over so many terms (Way::scales_last): adds to the result what happens
// when constant factors of the operands are applied to the sum.
void apply_factors_last(RangeCall& call, double terms, AbsTensor& result);

// Operand `product` times a constant of at most `factor` (Way::scales_weights): adds to the result what happens when
// the weights of that product are multiplied first.
void multiply_weights_first(RangeCall& call, std::size_t product, double factor, AbsTensor& result);

// Operand `product` plus a constant of at most `term`: likewise, added to the bias of the product first.
void add_to_bias_first(RangeCall& call, std::size_t product, double term, AbsTensor& result);

}  // namespace finity
