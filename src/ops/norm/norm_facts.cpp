#include "ops/norm/norm_facts.h"

#include <algorithm>
#include <cmath>

#include "ops/linear/dot_range.h"
#include "ops/shared/relations.h"

namespace finity {

namespace {

using Kind = Fact::Kind;

// The largest norm of this order that rows along `axes` may have; Inf when nothing is known.
double row_norm(const AbsTensor& x, std::uint32_t axes, int order) {
  double least = kInf;
  for (const Fact& fact : x.facts) {
    const bool fits = fact.kind == Kind::row_norm && fact.axes == axes && fact.total == order;
    if (fits && fact.range.is_finite()) least = std::min(least, fact.range.hi);
  }
  return least;
}

// No element is larger than its row.
void add_row_norm(AbsTensor& x, std::uint32_t axes, int order, double limit) {
  if (!(limit < max_finite(x.dtype))) return;
  cap_magnitude(x, limit);
  x.facts.push_back({.kind = Kind::row_norm, .axes = axes, .range = {.lo = 0, .hi = limit}, .total = order});
}

// Each element is off by a rounding, or by half the smallest number where it underflows.
double with_rounding(const AbsTensor& x, std::uint32_t axes, int order, double limit) {
  const double count = x.most_count(axes);
  const double underflow = (order == 2 ? std::sqrt(count) : count) * min_subnormal(x.dtype);
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

void add_computed_norm(const AbsTensor& x, std::uint32_t axes, bool aligned, double slack, AbsTensor& root) {
  if (!x.identity.valid() || !(slack < 0.5)) return;
  root.facts.push_back({.kind = Kind::norm_at_least,
                        .source = x.identity,
                        .axes = axes,
                        .aligned = aligned,
                        .slack = slack + 8 * unit_roundoff(x.dtype),
                        .lost = std::sqrt((x.most_count(axes) + 2) * min_subnormal(x.dtype))});
}

void add_quotient_norm(const AbsTensor& x, const AbsTensor& divisor, AbsTensor& result) {
  const Range below = divisor.hull();
  const Fact* norm = related(divisor, Kind::norm_at_least, x);
  if (norm == nullptr || !x.hull().is_finite() || !below.is_finite() || !(below.lo > 0)) return;
  add_row_norm(result, norm->axes, 2, with_rounding(x, norm->axes, 2, quotient_limit(*norm, x.dtype, below.lo)));
}

void add_scaled_norm(const AbsTensor& x, const AbsTensor& factor, AbsTensor& result) {
  if (!x.hull().is_finite() || !factor.hull().is_finite()) return;
  if (const Fact* inverse = related(factor, Kind::inverse_norm, x)) {
    add_row_norm(result, inverse->axes, 2, with_rounding(x, inverse->axes, 2, inverse->range.hi));
  }
  for (const Fact& fact : x.facts) {
    if (fact.kind != Kind::row_norm || !fact.range.is_finite()) continue;
    const double most = fact.range.hi * factor.hull().magnitude();
    add_row_norm(result, fact.axes, fact.total, with_rounding(x, fact.axes, fact.total, most));
  }
}

void add_product_norm(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  if (!a.hull().is_finite() || !b.hull().is_finite()) return;
  for (const Fact& fact : a.facts) {
    if (fact.kind != Kind::row_norm || fact.total != 2 || !fact.range.is_finite()) continue;
    const double limit = fact.range.hi * row_norm(b, fact.axes, 2);
    if (!std::isfinite(limit)) continue;
    add_row_norm(result, fact.axes, 1, with_rounding(result, fact.axes, 1, limit));
  }
}

void cap_row_sums(const RangeCall& call, const AbsTensor& x, std::uint32_t axes, AbsTensor& sums) {
  const double limit = row_norm(x, axes, 1);
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
  const double a_norm = std::min(row_norm(a, a_bit, 2), std::sqrt(terms) * a.hull().magnitude());
  const double b_norm = std::min(row_norm(b, b_bit, 2), std::sqrt(terms) * b.hull().magnitude());
  const double underflow = terms * min_subnormal(products.dtype);
  cap_sums(products, a_norm * b_norm * (1 + worst_error(call, products.dtype, terms)) + underflow);
}

}  // namespace finity
