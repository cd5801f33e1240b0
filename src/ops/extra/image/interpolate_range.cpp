#include "ops/extra/image/interpolate_range.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/range_groups.h"
#include "ops/shared/range_rules.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// Each axis overshoots what the one before left.
Bounds overshot(const Range& x, std::size_t axes, double negative) {
  Bounds bounds{x.lo, x.hi};
  for (std::size_t i = 0; i < axes; ++i) {
    const double overshoot = negative * (bounds.hi - bounds.lo);
    bounds.lo -= overshoot;
    bounds.hi += overshoot;
  }
  return bounds;
}

}  // namespace

Range weighted_range(DType dtype, DType carrier, const Range& x, std::size_t axes, double negative, double taps) {
  Range result = x;
  if (x.has_finite()) {
    const Bounds bounds = overshot(x, axes, negative);
    const auto power = static_cast<double>(axes);
    const double u = unit_roundoff(carrier);
    const double terms = std::min(std::pow(taps, power), kManyElements);
    const double error = std::min((terms + 16) * u, sum_growth(carrier, terms) + 16 * u);
    const double weights = std::pow(1 + 2 * negative, power);
    const double slack = error * weights * x.magnitude() + std::min(terms, 64.0) * min_subnormal(carrier);
    result = from_bounds(dtype, bounds.lo - slack, bounds.hi + slack);
    // Sums of products with weights that are not negative keep the sign.
    if (negative == 0 && x.lo >= 0) result.lo = std::max(result.lo, 0.0);
    if (negative == 0 && x.hi <= 0) result.hi = std::min(result.hi, 0.0);
  }
  // Weights may be 0, and cubic ones have both signs.
  const bool infinite = x.pinf || x.ninf;
  result.nan |= x.nan || infinite;
  result.pinf |= x.pinf || (infinite && negative > 0);
  result.ninf |= x.ninf || (infinite && negative > 0);
  return result;
}

namespace {

// Rounded to the nearest and saturated; others truncate.
Range integer_range(DType dtype, const Range& x, std::size_t axes, double negative) {
  const Bounds bounds = overshot(x, axes, negative);
  const double lo = std::max(std::floor(bounds.lo) - 1, lowest_finite(dtype));
  return from_bounds(dtype, lo, std::min(std::ceil(bounds.hi) + 1, max_finite(dtype)));
}

Range interpolated_cell(const RangeCall& call, DType dtype, const Range& x, std::size_t axes,
                        const Interpolation& how) {
  if (how.moves_only || x.is_empty()) return x;
  // Divided by a sum that may be small, weights may be large.
  if (!how.negative || !(is_float(dtype) || is_int(dtype))) return top(dtype);
  if (is_int(dtype)) return integer_range(dtype, x, axes, *how.negative);
  Range result;
  for (const DType carrier : call.accumulators(dtype)) {
    result = join(result, weighted_range(dtype, carrier, x, axes, *how.negative, how.taps));
  }
  return result;
}

}  // namespace

void range_interpolated(RangeCall& call, const Interpolation& how) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  AxisSet moving = how.untouched;
  moving.flip();
  if (moving.empty()) moving.assign(x.ranked ? x.rank() : 3, true);
  const auto axes = static_cast<std::size_t>(std::ranges::count(moving, true));
  const auto cell = [&](const Range& each) {
    const Range result = axes == 0 ? each : interpolated_cell(call, dtype, each, axes, how);
    if (!how.fill) return result;
    return join(result, is_float(dtype) ? point(round_to(dtype, *how.fill)) : top(dtype));
  };
  if (!x.ranked || how.untouched.empty()) {
    call.out(0, cell(x.hull()));
    return;
  }
  AbsTensor result = reduced_cells(x, moving, true, dtype, [&](const Group& group) { return cell(group.hull()); });
  const Dims sizes = sizes_of(call.out_type(0));
  if (call.out_type(0).ranked && sizes.size() == x.rank()) {
    result.sizes = sizes;
    call.out(0, std::move(result));
  } else {
    call.out(0, result.hull());
  }
}

}  // namespace finity
