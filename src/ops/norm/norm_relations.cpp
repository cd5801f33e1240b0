#include "ops/norm/norm_relations.h"

#include <algorithm>
#include <cmath>

#include "ops/linear/dot_range.h"
#include "ops/shared/relations.h"

namespace finity {

namespace {

// The largest norm (or Of::size_sum) that rows along `axes` may have; Inf when nothing is known.
double row_norm(const AbsTensor& x, AxisBits axes, Of of) {
  double least = kInf;
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (rows.of == of && rows.axes == axes && rows.in.is_finite()) least = std::min(least, rows.in.hi);
  }
  return least;
}

// No element is larger than its row.
void add_row_norm(AbsTensor& x, AxisBits axes, Of of, double limit) {
  if (!(limit < max_finite(x.dtype))) return;
  cap_magnitude(x, limit);
  x.relations.push_back(RowBound{.axes = axes, .of = of, .in = {.lo = 0, .hi = limit}});
}

// Each element is off by a rounding, or by half the smallest number where it underflows.
double with_rounding(const AbsTensor& x, AxisBits axes, Of of, double limit) {
  const double count = x.most_count(axes);
  const double underflow = (of == Of::norm ? std::sqrt(count) : count) * min_subnormal(x.dtype);
  return limit * (1 + 8 * unit_roundoff(x.dtype)) + underflow;
}

// No result, nor any sum on the way to it, is larger than this.
void cap_sums(AbsTensor& x, double limit) {
  if (!(limit < max_finite(x.dtype) / 2)) return;
  cap_magnitude(x, limit);
  for (Range& cell : x.cells) cell.nan = false;
}

double worst_error(const RangeCall& call, DType dtype, double terms) {
  double worst = 0;
  for (const DType accumulator : call.accumulators(dtype)) worst = std::max(worst, dot_error(accumulator, terms));
  return worst + 4 * unit_roundoff(dtype);
}

}  // namespace

void add_computed_norm(const AbsTensor& x, AxisBits axes, bool aligned, double error, AbsTensor& root) {
  if (!x.identity.valid() || !(error < 0.5)) return;
  root.relations.push_back(AggregateBound{.source = {x.identity, axes, aligned},
                                          .of = Of::norm,
                                          .order = Order::at_least,
                                          .relative = error + 8 * unit_roundoff(x.dtype),
                                          .absolute = std::sqrt((x.most_count(axes) + 2) * min_subnormal(x.dtype))});
}

void add_quotient_norm(const AbsTensor& x, const AbsTensor& divisor, AbsTensor& result) {
  const Range below = divisor.hull();
  const AggregateBound* norm = related(divisor, Of::norm, x);
  if (norm == nullptr || !x.hull().is_finite() || !below.is_finite() || !(below.lo > 0)) return;
  const AxisBits axes = norm->source.axes;
  add_row_norm(result, axes, Of::norm, with_rounding(x, axes, Of::norm, quotient_limit(*norm, x.dtype, below.lo)));
}

void add_scaled_norm(const AbsTensor& x, const AbsTensor& factor, AbsTensor& result) {
  if (!x.hull().is_finite() || !factor.hull().is_finite()) return;
  for (const ProductBound& inverse : each<ProductBound>(factor.relations)) {
    const Source& source = inverse.source;
    if (inverse.of != Of::norm || !source.aligned || !x.identity.valid() || source.value != x.identity) continue;
    add_row_norm(result, source.axes, Of::norm, with_rounding(x, source.axes, Of::norm, inverse.limit));
    break;
  }
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if ((rows.of != Of::norm && rows.of != Of::size_sum) || !rows.in.is_finite()) continue;
    const double most = rows.in.hi * factor.hull().magnitude();
    add_row_norm(result, rows.axes, rows.of, with_rounding(x, rows.axes, rows.of, most));
  }
}

void add_product_norm(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  if (!a.hull().is_finite() || !b.hull().is_finite()) return;
  for (const RowBound& rows : each<RowBound>(a.relations)) {
    if (rows.of != Of::norm || !rows.in.is_finite()) continue;
    const double limit = rows.in.hi * row_norm(b, rows.axes, Of::norm);
    if (!std::isfinite(limit)) continue;
    add_row_norm(result, rows.axes, Of::size_sum, with_rounding(result, rows.axes, Of::size_sum, limit));
  }
}

void cap_row_sums(const RangeCall& call, const AbsTensor& x, std::uint32_t axes, AbsTensor& sums) {
  const double limit = row_norm(x, axes, Of::size_sum);
  if (!(limit < kInf) || !x.hull().is_finite()) return;
  cap_sums(sums, limit * (1 + worst_error(call, x.dtype, x.most_count(axes))));
}

void cap_row_products(const RangeCall& call, const AbsTensor& a, std::size_t a_axis, const AbsTensor& b,
                      std::size_t b_axis, AbsTensor& products) {
  if (!a.ranked || !b.ranked || a_axis >= 32 || b_axis >= 32 || !is_float(products.dtype)) return;
  if (!a.hull().is_finite() || !b.hull().is_finite()) return;
  const std::uint32_t a_bit = 1U << a_axis, b_bit = 1U << b_axis;
  const double terms = std::min(a.most_count(a_bit), b.most_count(b_bit));
  // Rows of which nothing else is known are at most as long as their largest elements make them.
  const double a_norm = std::min(row_norm(a, a_bit, Of::norm), std::sqrt(terms) * a.hull().magnitude());
  const double b_norm = std::min(row_norm(b, b_bit, Of::norm), std::sqrt(terms) * b.hull().magnitude());
  const double underflow = terms * min_subnormal(products.dtype);
  cap_sums(products, a_norm * b_norm * (1 + worst_error(call, products.dtype, terms)) + underflow);
}

}  // namespace finity
