// How arithmetic uses and makes affine forms and relations. Rules for sums, differences,
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

// Both operands of a node are the same elements at the same indices.
bool same_elements(const AbsTensor& a, const AbsTensor& b);
// What x is at least (or equal to) of the source, and holds between broadcast operands as they stand.
const AggregateBound* related(const AbsTensor& x, Of of, const AbsTensor& source);
const AggregateBound* related(const AbsTensor& x, Of of, Order order, const AbsTensor& source);

// Adds to sqrt(x) what follows from x: at least a square, or a sum of squares, becomes at least a magnitude or a norm.
void add_roots(const AbsTensor& x, AbsTensor& root);
// Relative error of a sum or mean of squares besides that of adding up: of each square, and of what is rounded last.
double square_error(DType dtype, const AggregateBound& square);
// Adds to c / x, |c| at most `numerator`: what is at least a magnitude or norm bounds a product with it.
// `same_shape`: c was not wider than x.
void add_inverses(const AbsTensor& x, double numerator, bool same_shape, AbsTensor& inverse);
// The largest |this| * A, this = a number of at most `numerator` / a divisor that is at least A.
double inverse_limit(const AggregateBound& divisor_bound, DType dtype, const Range& divisor, double numerator);
// The smallest number that A / x cannot pass, x being at least A as `bound` says, and at least `least` > 0.
double quotient_limit(const AggregateBound& bound, DType dtype, double least);
// The same for an x that is at least a square and a surplus: |source| / (source^2 + surplus). Inf: there is no surplus.
double square_quotient_limit(const AggregateBound& square, DType dtype);

}  // namespace finity
