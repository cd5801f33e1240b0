#include "ops/shared/function_range.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ops/shared/accumulate.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Beyond this, argument reduction is not trusted to keep all digits.
constexpr double kLargeAngle = 65536;

// An end moved by the slack: `real` before, `rounded` after it was rounded into the dtype.
double moved_down(DType dtype, double real, double rounded, const Slack& slack) {
  double end = rounded;
  for (int i = 0; i < slack.ulps; ++i) end = next_down(dtype, end);
  if (slack.absolute > 0) end = std::min(end, round_to(dtype, real - slack.absolute));
  return std::max(end, lowest_finite(dtype));
}

double moved_up(DType dtype, double real, double rounded, const Slack& slack) {
  double end = rounded;
  for (int i = 0; i < slack.ulps; ++i) end = next_up(dtype, end);
  if (slack.absolute > 0) end = std::max(end, round_to(dtype, real + slack.absolute));
  return std::min(end, max_finite(dtype));
}

// Of the format a library computes in.
double least_normal(DType dtype) { return min_normal(sum_format(dtype)); }

// Where the operand is infinite.
Range at_infinity(DType dtype, double y) { return std::isnan(y) ? Range{.nan = true} : from_bounds(dtype, y, y); }

constexpr double kDoubleUnit = 0x1p-53;

}  // namespace

Range granted(DType dtype, double lo, double hi, const Slack& slack, double floor, double ceiling) {
  Range range = from_bounds(dtype, lo, hi);
  if (!range.has_finite() || std::isnan(lo) || std::isnan(hi)) return range;
  range.lo = std::clamp(moved_down(dtype, lo, range.lo, slack), floor, ceiling);
  range.hi = std::clamp(moved_up(dtype, hi, range.hi, slack), floor, ceiling);
  return range;
}

Range rising(DType dtype, const Range& x, const Rising& function) {
  Range range;
  if (x.has_finite()) {
    double lo = function.f(x.lo);
    double hi = function.f(x.hi);
    if (lo > hi) std::swap(lo, hi);  // computed in double, neighbours may change places
    range = granted(dtype, lo, hi, function.slack, function.floor, function.ceiling);
    if (range.has_finite()) {
      if (x.lo >= function.anchor_x) range.lo = std::max(range.lo, function.anchor_y);
      if (x.hi <= function.anchor_x) range.hi = std::min(range.hi, function.anchor_y);
    }
  }
  if (x.pinf) range = join(range, at_infinity(dtype, function.f(kInf)));
  if (x.ninf) range = join(range, at_infinity(dtype, function.f(-kInf)));
  range.nan |= x.nan;
  return range;
}

Range part_of(const Range& x, double lo, double hi) {
  Range part = x.finite();
  part.lo = std::max(x.lo, lo);
  part.hi = std::min(x.hi, hi);
  if (!part.has_finite()) return {};
  part.nonzero = x.nonzero && part.lo <= 0 && part.hi >= 0;
  return part;
}

Range attribute_range(DType dtype, double value) {
  Range range = point(value);
  if (!is_float(dtype) || !range.has_finite()) return range;
  const double rounded = round_to(dtype, value);
  if (std::isfinite(rounded)) {
    range.lo = std::min(value, rounded);
    range.hi = std::max(value, rounded);
  }
  return range;
}

double first_above(DType dtype, double value) {
  if (!is_float(dtype)) return std::floor(value) + 1;
  const double rounded = round_to(dtype, value);
  return rounded > value ? rounded : next_up(dtype, rounded);
}

double last_not_above(DType dtype, double value) {
  return is_float(dtype) ? round_to(dtype, value) : std::floor(value);
}

Range affine_of(DType dtype, const Range& x, const Range& a, const Range& b) {
  const Range product = multiply(DType::float64, a, x);
  const Range sum = add(DType::float64, product, b);
  // With a rounding after each step: what overflows on the way stays infinite.
  Range range = add(dtype, multiply(dtype, a, x), b);
  if (sum.has_finite()) {
    const double slack = 2 * unit_roundoff(dtype) * product.magnitude();
    range = join(range, granted(dtype, sum.lo, sum.hi, {.ulps = 1, .absolute = slack}));
  }
  return range;
}

// ---- elementary functions --------------------------------------------------

Range exp_of(DType dtype, const Range& x, int ulps) {
  Range range = rising(
      dtype, x,
      {.f = [](double v) { return std::exp(v); }, .slack = slack_of(ulps), .floor = 0, .anchor_x = 0, .anchor_y = 1});
  // Kernels that limit their argument do not get below the normal numbers.
  if (ulps > 0 && range.has_finite()) range.hi = std::max(range.hi, round_to(dtype, least_normal(dtype)));
  return range;
}

Range log_of(DType dtype, const Range& x, int ulps) {
  Range positive = part_of(x, min_subnormal(dtype), kInf);
  // Kernels without subnormal numbers take the smallest normal one instead.
  if (ulps > 0 && positive.has_finite()) positive.hi = std::max(positive.hi, least_normal(dtype));
  positive.pinf = x.pinf;
  Range range =
      rising(dtype, positive,
             {.f = [](double v) { return std::log(v); }, .slack = slack_of(ulps), .anchor_x = 1, .anchor_y = 0});
  range.ninf |= x.may_be_zero();
  range.nan |= x.nan || x.may_be_negative();
  return range;
}

Range sqrt_of(DType dtype, const Range& x, int) {
  Range domain = part_of(x, x.nonzero ? min_subnormal(dtype) : 0, kInf);
  domain.pinf = x.pinf;
  Range range = rising(dtype, domain, {.f = [](double v) { return std::sqrt(v); }});
  range.nan |= x.nan || x.may_be_negative();
  return range;
}

Range erf_of(DType dtype, const Range& x, int ulps) {
  if (!is_float(dtype)) {
    // Truncated: only a value that rounded to 1 first is not 0.
    return from_bounds(dtype, x.may_be_negative() ? -1 : 0, x.may_be_positive() ? 1 : 0);
  }
  return rising(dtype, x,
                {.f = [](double v) { return std::erf(v); },
                 .slack = slack_of(ulps),
                 .floor = -1,
                 .ceiling = 1,
                 .anchor_x = 0,
                 .anchor_y = 0});
}

namespace {

// Is there an integer k with lo <= offset + k * period <= hi, or is it too close to tell?
bool may_contain(double lo, double hi, double offset, double period) {
  const double margin = 1e-9;
  return std::floor((hi - offset) / period + margin) >= std::ceil((lo - offset) / period - margin);
}

// A wave with maxima at `crest` + 2 pi k.
Range wave(DType dtype, const Range& x, double (*f)(double), double crest, int ulps) {
  Range range;
  if (x.has_finite()) {
    double lo = -1, hi = 1;
    const Slack slack = slack_of(ulps, 8 * kDoubleUnit);
    if (x.magnitude() <= kLargeAngle) {
      const double a = f(x.lo), b = f(x.hi);
      if (!may_contain(x.lo, x.hi, crest - kPi, 2 * kPi)) lo = std::min(a, b);
      if (!may_contain(x.lo, x.hi, crest, 2 * kPi)) hi = std::max(a, b);
    }
    range = granted(dtype, lo, hi, slack, -1, 1);
  }
  range.nan |= x.nan || x.pinf || x.ninf;
  return range;
}

}  // namespace

Range sin_of(DType dtype, const Range& x, int ulps) {
  Range range = wave(dtype, x, std::sin, kPi / 2, ulps);
  if (!x.has_finite()) return range;
  // The sign is right, and sin(0) is 0.
  if (x.lo >= 0 && x.hi <= kPi) range.lo = std::max(range.lo, 0.0);
  if (x.lo >= -kPi && x.hi <= 0) range.hi = std::min(range.hi, 0.0);
  return range;
}

Range cos_of(DType dtype, const Range& x, int ulps) {
  Range range = wave(dtype, x, std::cos, 0, ulps);
  if (x.has_finite() && x.lo == 0 && x.hi == 0) range.lo = range.hi = 1;
  return range;
}

bool may_cross_tan_pole(const Range& x) {
  if (!x.has_finite() || x.lo == x.hi) return false;
  return x.magnitude() > kLargeAngle || may_contain(x.lo, x.hi, kPi / 2, kPi);
}

namespace {

// Of all numbers of the format, rounded up: 66347 (which is infinite there), 6211, 6.2e8 and 2.2e18.
double largest_tangent(DType dtype) {
  switch (dtype) {
    case DType::float16: return 0x1p17;
    case DType::bfloat16: return 0x1p13;
    case DType::float32: return 0x1p30;
    default: return 0x1p62;
  }
}

}  // namespace

Range tan_of(DType dtype, const Range& x, int ulps) {
  Range range;
  const double most = largest_tangent(dtype);
  if (x.has_finite() && (may_cross_tan_pole(x) || x.magnitude() > kLargeAngle)) {
    range = granted(dtype, -most, most, slack_of(ulps));
  } else {
    range = rising(dtype, part_of(x, -kInf, kInf),
                   {.f = [](double v) { return std::tan(v); },
                    .slack = slack_of(ulps, 8 * kDoubleUnit),
                    .anchor_x = x.lo >= -1.5 && x.hi <= 1.5 ? 0 : kNaN,
                    .anchor_y = 0});
  }
  range.nan |= x.nan || x.pinf || x.ninf;
  return range;
}

Range asin_of(DType dtype, const Range& x, int ulps) {
  Range range = rising(dtype, part_of(x, -1, 1),
                       {.f = [](double v) { return std::asin(v); },
                        .slack = slack_of(ulps),
                        .floor = round_to(dtype, -kPi / 2),
                        .ceiling = round_to(dtype, kPi / 2),
                        .anchor_x = 0,
                        .anchor_y = 0});
  range.nan |= x.nan || x.least() < -1 || x.greatest() > 1;
  return range;
}

Range acos_of(DType dtype, const Range& x, int ulps) {
  // Computed at -x, where it rises.
  const Range mirrored = rising(dtype, negate(dtype, part_of(x, -1, 1)),
                                {.f = [](double v) { return std::acos(-v); },
                                 .slack = slack_of(ulps, kArcCosine.specified.of_one * float_unit(dtype)),
                                 .floor = 0,
                                 .ceiling = round_to(dtype, kPi)});
  Range range = mirrored;
  if (x.lo == 1 && x.hi == 1) range.lo = range.hi = 0;
  range.nan |= x.nan || x.least() < -1 || x.greatest() > 1;
  return range;
}

Range atan_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, x,
                {.f = [](double v) { return std::atan(v); },
                 .slack = slack_of(ulps),
                 .floor = round_to(dtype, -kPi / 2),
                 .ceiling = round_to(dtype, kPi / 2),
                 .anchor_x = 0,
                 .anchor_y = 0});
}

Range sinh_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, x,
                {.f = [](double v) { return std::sinh(v); }, .slack = slack_of(ulps), .anchor_x = 0, .anchor_y = 0});
}

Range cosh_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, absolute(dtype, x),
                {.f = [](double v) { return std::cosh(v); }, .slack = slack_of(ulps), .anchor_x = 0, .anchor_y = 1});
}

Range tanh_of(DType dtype, const Range& x, int ulps) {
  const double most = limit_of(kTanh, dtype, 1, ulps);
  return rising(dtype, x,
                {.f = [](double v) { return std::tanh(v); },
                 .slack = slack_of(ulps, 0x1p-14 * least_normal(dtype)),
                 .floor = -most,
                 .ceiling = most,
                 .anchor_x = 0,
                 .anchor_y = 0});
}

Range asinh_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, x,
                {.f = [](double v) { return std::asinh(v); }, .slack = slack_of(ulps), .anchor_x = 0, .anchor_y = 0});
}

Range acosh_of(DType dtype, const Range& x, int ulps) {
  Range domain = part_of(x, 1, kInf);
  domain.pinf = x.pinf;
  Range range = rising(
      dtype, domain,
      {.f = [](double v) { return std::acosh(v); }, .slack = slack_of(ulps), .floor = 0, .anchor_x = 1, .anchor_y = 0});
  range.nan |= x.nan || x.least() < 1;
  return range;
}

Range atanh_of(DType dtype, const Range& x, int ulps) {
  const Range domain = part_of(x, next_up(dtype, -1), next_down(dtype, 1));
  Range range =
      rising(dtype, domain,
             {.f = [](double v) { return std::atanh(v); }, .slack = slack_of(ulps), .anchor_x = 0, .anchor_y = 0});
  range.pinf |= x.has_finite() && x.lo <= 1 && x.hi >= 1;
  range.ninf |= x.has_finite() && x.lo <= -1 && x.hi >= -1;
  range.nan |= x.nan || x.least() < -1 || x.greatest() > 1;
  return range;
}

// ---- exact ones ------------------------------------------------------------

Range reciprocal_of(DType dtype, const Range& x, int) { return divide(dtype, point(1), x); }

namespace {

Range to_integers(DType dtype, const Range& x, double (*f)(double)) {
  Range range = rising(dtype, x, {.f = f});
  range.integer = range.has_finite();
  return range;
}

}  // namespace

Range floor_of(DType dtype, const Range& x, int) { return to_integers(dtype, x, std::floor); }
Range ceil_of(DType dtype, const Range& x, int) { return to_integers(dtype, x, std::ceil); }
Range round_of(DType dtype, const Range& x, int) { return to_integers(dtype, x, std::nearbyint); }

Range sign_of(DType dtype, const Range& x, int ulps) {
  Range range = to_integers(dtype, x, [](double v) { return static_cast<double>((v > 0) - (v < 0)); });
  if (x.nonzero && range.has_finite()) {
    if (range.lo == 0) range.lo = 1;
    if (range.hi == 0) range.hi = -1;
    range.nonzero = range.lo < 0 && range.hi > 0;
  }
  // Some kernels take NaN for neither positive nor negative.
  if (x.nan && ulps > 0) range = join(range, from_bounds(dtype, 0, 0));
  return range;
}

}  // namespace finity
