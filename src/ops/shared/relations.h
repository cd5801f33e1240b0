// How arithmetic uses and makes affine forms and facts. Rules for sums, differences,
// products and quotients share these.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

// What a form says about a cell computed from finite operands in `dtype`: tighter ends, and no overflow where the
// form proves there is none.
Range refined_by(const Range& cell, const Form& form, const Symbols& symbols, DType dtype, bool operands_finite);

// a + b or a - b on every cell, with forms.
AbsTensor affine_sum(RangeCall& call, const AbsTensor& a, const AbsTensor& b, bool minus);
// c * x for a known number c, with forms.
AbsTensor scaled(RangeCall& call, const AbsTensor& x, double factor, const AbsTensor& plain);

// share * x for a share in [0, 1] and an x of one sign: the product is at least (for negative x at most) the share
// times x's end that is nearest to zero. As a form this adds up with the rest of the share: t x + (1 - t) y lies beyond
// the nearer of both ends. False: the operands are not like that.
bool is_share(const AbsTensor& share, const AbsTensor& x);
AbsTensor share_of(RangeCall& call, const AbsTensor& share, const AbsTensor& x);

// Keeps every cell at most / at least the limit (finite values only).
void cap_above(AbsTensor& x, double limit);
void cap_below(AbsTensor& x, double limit);
// Both, for a real limit that results are rounded after; nothing when they may pass the largest number.
void cap_magnitude(AbsTensor& x, double limit);

// Facts of sqrt(x) from those of x: sums and means of squares become at_least_abs and norm_at_least.
void root_facts(const AbsTensor& x, AbsTensor& root);
// Relative error of a mean of squares besides that of adding up: what Pow and the last roundings may do.
double square_error(const RangeCall& call, DType dtype);
// Facts of c / x, |c| at most `numerator`: at_least_abs becomes at_most_inverse, norm_at_least inverse_norm.
// `same_shape`: c was not wider than x.
void inverse_facts(const AbsTensor& x, double numerator, bool same_shape, AbsTensor& inverse);
// The largest |this| * |source|, this = a number of at most `numerator` / a divisor with this at_least_abs or
// norm_at_least fact (then of the norm of the source).
double inverse_limit(const Fact& norm, DType dtype, const Range& divisor, double numerator);
// What underflows of a sum of squares, by the number of terms that the fact's slack stands for.
double lost_squares(const Fact& fact, DType dtype);
// The smallest number that |source / x| cannot pass, x having this at_least_abs fact and being at least `least` > 0.
double quotient_limit(const Fact& norm, DType dtype, double least);
// The same for an x with this square_sum_of fact: source / (source^2 + surplus). Inf: there is no surplus.
double square_quotient_limit(const Fact& squares, DType dtype);

// Both operands of a node are the same elements at the same indices.
bool same_elements(const AbsTensor& a, const AbsTensor& b);
// The fact holds between broadcast operands as they stand.
const Fact* related(const AbsTensor& x, Fact::Kind kind, const AbsTensor& source);

}  // namespace finity
