#include "ops/shared/mix.h"

#include <algorithm>
#include <cmath>

#include "ops/table/range_call.h"

namespace finity {

namespace {

bool made_by(const Upstream& value, OrderKind kind) {
  return value.op() != nullptr && value.op()->traits.order == kind && value.input_count() == 2;
}

bool is_one(const Upstream& value) {
  const AbsTensor* range = value.range();
  return range != nullptr && range->hull().is_point() && range->hull().lo == 1;
}

// Has an element of its own at every place of the sum, or one for all: before opset 7 others may stand anywhere.
bool aligned(const Upstream& value, std::size_t rank) {
  const AbsTensor* range = value.range();
  return range != nullptr && range->ranked && (range->rank() == rank || range->rank() == 0);
}

// The smallest power of two that is not less; itself where there is none to speak of.
double power_above(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return fraction == 0.5 ? x : std::ldexp(1, exponent);
}

// x and y are products, one of them with 1 less what the other has.
std::optional<Mix> find_weighted(const Upstream& x, const Upstream& y, std::size_t rank) {
  if (!made_by(x, OrderKind::product) || !made_by(y, OrderKind::product)) return std::nullopt;
  for (const bool swapped : {false, true}) {
    const Upstream& first = swapped ? y : x;
    const Upstream& second = swapped ? x : y;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      for (const std::size_t j : {std::size_t{0}, std::size_t{1}}) {
        const Upstream share = first.input(i);
        const Upstream rest = second.input(j);
        if (!made_by(rest, OrderKind::difference) || !rest.input(1).is(share) || !is_one(rest.input(0))) continue;
        if (!aligned(share, rank) || !aligned(rest, share.range()->rank())) continue;
        return Mix{.share = share, .a = first.input(1 - i), .b = second.input(1 - j)};
      }
    }
  }
  return std::nullopt;
}

// `start`, and the product that is added to it or subtracted: one factor is the way to what it goes towards.
std::optional<Mix> find_step(OrderKind kind, const Upstream& start, const Upstream& product, std::size_t rank) {
  if (!made_by(product, OrderKind::product) || !aligned(start, rank)) return std::nullopt;
  const std::size_t at = kind == OrderKind::sum ? 1 : 0;  // of the start in a difference
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Upstream way = product.input(i);
    const Upstream share = product.input(1 - i);
    if (!made_by(way, OrderKind::difference) || !way.input(at).is(start)) continue;
    if (!aligned(way, rank) || !aligned(share, rank) || !aligned(way.input(1 - at), rank)) continue;
    return Mix{.share = share, .a = way.input(1 - at), .b = start, .form = Mix::Form::step};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Mix> find_mix(OrderKind kind, const Upstream& x, const Upstream& y, std::size_t rank) {
  std::optional<Mix> mix = find_step(kind, x, y, rank);
  if (!mix && kind == OrderKind::sum) mix = find_step(kind, y, x, rank);
  if (!mix && kind == OrderKind::sum) mix = find_weighted(x, y, rank);
  return mix;
}

std::optional<double> excess_of_share(const Mix& mix) {
  const AbsTensor* range = mix.share.range();
  const Range z = range != nullptr ? range->hull() : Range{};
  if (!z.is_finite() || z.lo < -1 || z.hi > 2) return std::nullopt;
  return std::max({0.0, -z.lo, z.hi - 1});
}

// Weighted: 1 - z is rounded, both products are, and the sum is: each by u of what it is at most. But a power of two is
// not exceeded if z is in [0, 1]: with a and b at most p, the products are at most z p and (1 - z) p, which are exact,
// and z + fl(1 - z) is at most 1 + u / 2, which is rounded to 1. That makes [-1, 1] a range that a loop can stay in.
//
// A step: a - b, the product and the sum are rounded, the first two by u of up to twice the size. If z is in [0, 1],
// the product is no larger than fl(a - b), so what is added to b ends at most at b + fl(a - b). With both in [-p, p]
// the way is at most 2 p long, so it was rounded by p u at most, and p + p u is rounded to p.
Range range_of_mix(DType dtype, Mix::Form form, const Range& either, double excess) {
  const double size = either.magnitude(), unit = unit_roundoff(dtype);
  if (!either.is_finite() || !(4 * (1 + excess) * size < max_finite(dtype))) return top(dtype);  // it may overflow
  const double roundings = form == Mix::Form::step ? 10 : 6;
  const double min_normal = min_subnormal(dtype) / (2 * unit);  // what flushing takes away
  const double slack = excess * (either.hi - either.lo) + roundings * (unit * (1 + excess) * size + min_normal);
  double lo = either.lo - slack, hi = either.hi + slack;
  const double least = 8 * min_normal;  // below, products are not exact
  double above = power_above(either.hi), below = power_above(-either.lo);
  if (form == Mix::Form::step) above = below = power_above(size);
  if (excess == 0 && above > least && (form == Mix::Form::step || either.hi > least)) hi = std::min(hi, above);
  if (excess == 0 && below > least && (form == Mix::Form::step || either.lo < -least)) lo = std::max(lo, -below);
  return from_bounds(dtype, lo, hi);
}

void limit_mix(OrderKind kind, RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  if (!call.has_output(0) || !is_float(dtype) || !call.out_type(0).ranked) return;
  const std::optional<Mix> mix = find_mix(kind, call.upstream(0), call.upstream(1), call.out_type(0).shape.size());
  if (!mix || mix->a.range() == nullptr || mix->b.range() == nullptr) return;
  const std::optional<double> excess = excess_of_share(*mix);
  const Range a = mix->a.range()->hull(), b = mix->b.range()->hull();
  if (!excess || !a.is_finite() || !b.is_finite()) return;
  const Range limit = range_of_mix(dtype, mix->form, join(a, b), *excess);
  for (Range& cell : call.outs()[0].cells) cell = meet(cell, limit);
}

}  // namespace finity
