// Rows of bounded length: x / |x| has length one, and by Cauchy and Schwarz the product of two such rows is at most
// one.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

// What `root` = |x| over `axes`, computed with this relative error, is at least.
void add_computed_norm(const AbsTensor& x, AxisBits axes, bool aligned, double error, AbsTensor& root);

// result = x / divisor, of the shape of x.
void add_quotient_norm(const AbsTensor& x, const AbsTensor& divisor, AbsTensor& result);
// result = x * factor, of the shape of x.
void add_scaled_norm(const AbsTensor& x, const AbsTensor& factor, AbsTensor& result);
// result = a * b, elementwise, all of one shape.
void add_product_norm(const AbsTensor& a, const AbsTensor& b, AbsTensor& result);

// Caps the sums of x over `axes`.
void cap_row_sums(const RangeCall& call, const AbsTensor& x, AxisBits axes, AbsTensor& sums);
// Caps the products of rows of a along axis `a_axis` with rows of b along `b_axis`.
void cap_row_products(const RangeCall& call, const AbsTensor& a, std::size_t a_axis, const AbsTensor& b,
                      std::size_t b_axis, AbsTensor& products);

}  // namespace finity
