// Arithmetic on ranges. Ends are computed in double and rounded once into the
// dtype, which is what the operation itself does with them; rounding is monotone,
// so these are the exact hulls. Infinities and NaN are handled as separate cases:
//
//   add       +Inf with -Inf gives NaN
//   multiply  0 with an infinity gives NaN
//   divide    x / 0 gives either infinity (zeros have signs), 0 / 0 and Inf / Inf NaN
#include <algorithm>
#include <cmath>

#include "domain/range.h"

namespace finity {

namespace {

bool has_value(const Range& x) { return !x.is_empty(); }
bool has_infinity(const Range& x) { return x.pinf || x.ninf; }

Range corners(DType dtype, double a, double b, double c, double d) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c) || std::isnan(d)) return top(dtype);
  const auto [lo, hi] = std::minmax({a, b, c, d});
  return from_bounds(dtype, lo, hi);
}

double least_magnitude(const Range& x, DType dtype) {
  if (!x.nonzero) return x.least_magnitude();
  return std::max(x.least_magnitude(), x.integer ? 1 : min_subnormal(dtype));
}

// Quotients by divisors of one sign, [lo, hi] not containing zero.
Range divide_by_sign(DType dtype, const Range& a, double lo, double hi) {
  Range result;
  if (is_float(dtype)) return corners(dtype, a.lo / lo, a.lo / hi, a.hi / lo, a.hi / hi);
  result = corners(dtype, std::trunc(a.lo / lo), std::trunc(a.lo / hi), std::trunc(a.hi / lo), std::trunc(a.hi / hi));
  return result;
}

Range finite_quotients(DType dtype, const Range& a, const Range& b) {
  Range result;
  const double smallest = std::max(b.integer ? 1 : min_subnormal(dtype), b.nonzero ? b.gap : 0);
  if (b.hi > 0) result = join(result, divide_by_sign(dtype, a, std::max(b.lo, smallest), b.hi));
  if (b.lo < 0) result = join(result, divide_by_sign(dtype, a, b.lo, std::min(b.hi, -smallest)));
  return result;
}

}  // namespace

Range add(DType dtype, const Range& a, const Range& b) {
  if (!has_value(a) || !has_value(b)) return {};
  Range result;
  if (a.has_finite() && b.has_finite()) {
    result = from_bounds(dtype, a.lo + b.lo, a.hi + b.hi);
    result.integer |= a.integer && b.integer && result.has_finite();
  }
  result.nan |= a.nan || b.nan || (a.pinf && b.ninf) || (a.ninf && b.pinf);
  result.pinf |= (a.pinf && (b.has_finite() || b.pinf)) || (b.pinf && a.has_finite());
  result.ninf |= (a.ninf && (b.has_finite() || b.ninf)) || (b.ninf && a.has_finite());
  return result;
}

Range subtract(DType dtype, const Range& a, const Range& b) {
  Range flipped = b;
  flipped.lo = -b.hi;
  flipped.hi = -b.lo;
  std::swap(flipped.pinf, flipped.ninf);
  return add(dtype, a, flipped);
}

Range multiply(DType dtype, const Range& a, const Range& b) {
  if (!has_value(a) || !has_value(b)) return {};
  Range result;
  if (a.has_finite() && b.has_finite()) {
    result = corners(dtype, a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi);
    result.integer |= a.integer && b.integer && result.has_finite();
    const double a_least = least_magnitude(a, dtype);
    const double b_least = least_magnitude(b, dtype);
    result.nonzero = result.lo <= 0 && result.hi >= 0 && a_least > 0 && b_least > 0 && (a_least >= 1 || b_least >= 1) &&
                     is_float(dtype);
    if (result.nonzero) result.gap = std::min(from_bounds(dtype, 0, a_least * b_least).hi, result.magnitude());
  }
  const auto times_infinity = [&](const Range& x, const Range& y) {
    if (!has_infinity(x)) return;
    result.nan |= y.may_be_zero();
    result.pinf |= (x.pinf && y.may_be_positive()) || (x.ninf && y.may_be_negative());
    result.ninf |= (x.pinf && y.may_be_negative()) || (x.ninf && y.may_be_positive());
  };
  times_infinity(a, b);
  times_infinity(b, a);
  result.nan |= a.nan || b.nan;
  return result;
}

Range divide(DType dtype, const Range& a, const Range& b) {
  if (!has_value(a) || !has_value(b)) return {};
  Range result;
  if (a.has_finite() && b.has_finite()) result = finite_quotients(dtype, a, b);
  result.nan |= a.nan || b.nan;
  if (!is_float(dtype)) return result;
  const bool by_zero = b.may_be_zero();
  if (by_zero) {
    result.nan |= a.may_be_zero();
    const bool infinite = a.has_finite() && !(a.lo == 0 && a.hi == 0);
    result.pinf |= infinite || has_infinity(a);
    result.ninf |= infinite || has_infinity(a);
  }
  if (has_infinity(a)) {
    result.nan |= has_infinity(b);
    result.pinf |= (a.pinf && b.may_be_positive()) || (a.ninf && b.may_be_negative());
    result.ninf |= (a.pinf && b.may_be_negative()) || (a.ninf && b.may_be_positive());
  }
  if (has_infinity(b) && a.has_finite()) result = join(result, point(0));
  return result;
}

Range negate(DType dtype, const Range& a) {
  if (!has_value(a)) return {};
  Range result;
  if (a.has_finite()) result = from_bounds(dtype, -a.hi, -a.lo);
  result.integer |= a.integer && result.has_finite();
  result.nonzero = a.nonzero && result.lo <= 0 && result.hi >= 0;
  if (result.nonzero) result.gap = a.gap;
  result.nan |= a.nan;
  result.pinf |= a.ninf;
  result.ninf |= a.pinf;
  return result;
}

Range absolute(DType dtype, const Range& a) {
  if (!has_value(a)) return {};
  Range result;
  if (a.has_finite()) {
    const double lo = a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0;
    result = from_bounds(dtype, lo, a.magnitude());
    // |x| of a nonzero x is at least the smallest number there is.
    if (lo == 0 && a.nonzero && result.lo == 0) result.lo = std::min(least_magnitude(a, dtype), result.hi);
    result.integer |= a.integer && result.has_finite();
    if (a.integer && result.lo > 0) result.lo = std::ceil(result.lo);
  }
  result.nan |= a.nan;
  result.pinf |= a.pinf || a.ninf;
  return result;
}

Range square(DType dtype, const Range& a) {
  if (!has_value(a)) return {};
  Range result;
  if (a.has_finite()) {
    const double least = least_magnitude(a, dtype);
    result = from_bounds(dtype, least * least, a.magnitude() * a.magnitude());
    result.integer |= a.integer && result.has_finite();
  }
  result.nan |= a.nan;
  result.pinf |= a.pinf || a.ninf;
  return result;
}

Range minimum(const Range& a, const Range& b) {
  if (!has_value(a) || !has_value(b)) return {};
  Range result;
  result.nan = a.nan || b.nan;
  const bool a_number = a.has_finite() || has_infinity(a);
  const bool b_number = b.has_finite() || has_infinity(b);
  if (!a_number || !b_number) return result;
  result.ninf = a.ninf || b.ninf;
  result.pinf = a.pinf && b.pinf;
  const double greatest = std::min(a.greatest(), b.greatest());
  result.lo = std::min(a.lo, b.lo);
  result.hi = greatest == kInf ? std::max(a.hi, b.hi) : greatest;
  if (!result.has_finite() || result.hi == -kInf) {
    result.lo = kInf;
    result.hi = -kInf;
    return result;
  }
  result.integer = (a.integer || !a.has_finite()) && (b.integer || !b.has_finite());
  result.nonzero = result.lo <= 0 && result.hi >= 0 && !a.may_be_zero() && !b.may_be_zero();
  return result;
}

Range maximum(const Range& a, const Range& b) {
  const auto flip = [](const Range& x) {
    Range y = x;
    y.lo = -x.hi;
    y.hi = -x.lo;
    y.pinf = x.ninf;
    y.ninf = x.pinf;
    return y;
  };
  return flip(minimum(flip(a), flip(b)));
}

Range sum_of(DType dtype, DType accumulator, const Range& each, double least, double most) {
  if (most < 1) return point(0);
  if (!has_value(each)) return least < 1 ? point(0) : Range{};
  if (least == 1 && most == 1) return each;
  Range result;
  if (each.has_finite()) {
    const double slack = summation_error(is_float(dtype) ? accumulator : dtype, most) * most * each.magnitude();
    const double lo = (each.lo < 0 ? most : least) * each.lo;
    const double hi = (each.hi > 0 ? most : least) * each.hi;
    // Sums of numbers of one sign only grow: no rounding takes them back behind a single term.
    const double one_lo = each.lo >= 0 ? (least < 1 ? 0 : each.lo) : -kInf;
    const double one_hi = each.hi <= 0 ? (least < 1 ? 0 : each.hi) : kInf;
    result = from_bounds(dtype, std::max(lo - slack, one_lo), std::min(hi + slack, one_hi));
    const double limit = max_finite(is_float(dtype) ? accumulator : dtype);
    if (is_float(dtype)) {
      const bool up = most * std::max(each.hi, 0.0) * (1 + summation_error(accumulator, most)) > limit;
      const bool down = most * std::max(-each.lo, 0.0) * (1 + summation_error(accumulator, most)) > limit;
      result.pinf |= up;
      result.ninf |= down;
      result.nan |= up && down;
    }
    result.integer |= each.integer && result.has_finite() && slack < 0.5;
  }
  result.nan |= each.nan || (each.pinf && each.ninf);
  result.pinf |= each.pinf;
  result.ninf |= each.ninf;
  if (!each.has_finite() && least < 1) result = join(result, point(0));
  return result;
}

}  // namespace finity
