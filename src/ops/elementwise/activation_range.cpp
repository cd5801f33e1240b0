// Ranges of activation functions; see function_range.h for what is granted to libraries.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/elementwise/activation_rules.h"
#include "ops/shared/function_range.h"
#include "tensor/float_formats.h"

namespace finity {

Range relu_of(DType dtype, const Range& x) {
  Range range = maximum(x, point(0));
  // Some libraries turn NaN into 0.
  if (x.nan) range = join(range, from_bounds(dtype, 0, 0));
  return range;
}

Range sigmoid_of(DType dtype, const Range& x, int ulps) {
  constexpr double kFirstAboveOne = 16;
  const auto f = [](double v) {
    const double e = std::exp(-std::abs(v));
    return (v >= 0 ? 1.0 : e) / (1.0 + e);
  };
  return rising(dtype, x,
                {.f = f,
                 .slack = slack_of(ulps, kSigmoid.specified.of_one * float_unit(dtype)),
                 .floor = 0,
                 .ceiling = x.hi > kFirstAboveOne ? limit_of(kSigmoid, dtype, 1, ulps) : 1,
                 .anchor_x = 0,
                 .anchor_y = 0.5});
}

namespace {

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

}  // namespace

Range softplus_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, x, {.f = softplus, .slack = slack_of(ulps), .floor = 0});
}

namespace {

// log(exp(x) + 1), in float32 for narrower formats: what is small beside 1 is lost, and what exp cannot hold is
// infinite.
Range plain_softplus_of(DType dtype, const Range& x, int ulps) {
  Range range = softplus_of(dtype, x, ulps);
  if (!x.has_finite()) return range;
  const double lost = 2 * float_unit(dtype);
  const Range wide = from_bounds(dtype, range.lo - lost, range.hi + lost);
  range.lo = std::max(wide.lo, 0.0);
  range.hi = wide.hi;
  const DType carrier = dtype == DType::float64 ? DType::float64 : DType::float32;
  range.pinf |= !(x.hi < std::log(max_finite(carrier)) - 0.01);
  return range;
}

}  // namespace

void range_softplus(RangeCall& call) {
  // The operator sets that define it by a function, which ONNX Runtime takes where it has no kernel.
  const bool by_body = call.version() >= 18 && call.version() < 22 && call.may(Way::plain_softplus);
  range_mapped(call, Monotone::increasing, [&](const Range& x, DType dtype) {
    return by_body && dtype != DType::float32 ? plain_softplus_of(dtype, x, call.ulps())
                                              : softplus_of(dtype, x, call.ulps());
  });
}

Range softsign_of(DType dtype, const Range& x, int ulps) {
  const double most = x.magnitude() > 1e37 ? limit_of(kSoftsign, dtype, 1, ulps) : 1;
  Range range = rising(dtype, x.finite(),
                       {.f = [](double v) { return v / (1.0 + std::abs(v)); },
                        .slack = slack_of(ulps),
                        .floor = -most,
                        .ceiling = most,
                        .anchor_x = 0,
                        .anchor_y = 0});
  // Inf / Inf, or the limit.
  if (x.pinf) range = join(range, from_bounds(dtype, 1, 1));
  if (x.ninf) range = join(range, from_bounds(dtype, -1, -1));
  range.nan |= x.nan || x.pinf || x.ninf;
  return range;
}

namespace {

// beta * x in real numbers and one unit around, and whether it overflows where it is rounded to the dtype first.
Range scaled_argument(DType dtype, const Range& x, double beta) {
  const Range exact = multiply(DType::float64, x, point(beta));
  const Range rounded = multiply(dtype, x, attribute_range(dtype, beta));
  Range range = exact;
  if (range.has_finite()) {
    const double off = 2 * unit_roundoff(dtype) * range.magnitude() + min_subnormal(dtype);
    range = from_bounds(DType::float64, range.lo - off, range.hi + off);
  }
  range.nan |= exact.nan || rounded.nan;
  range.pinf |= exact.pinf || rounded.pinf;
  range.ninf |= exact.ninf || rounded.ninf;
  return range;
}

}  // namespace

Range scaled_tanh_of(DType dtype, const Range& x, double alpha, double beta, int ulps) {
  if (!std::isfinite(alpha) || !std::isfinite(beta)) return top(dtype);
  const Range gate = tanh_of(dtype, scaled_argument(dtype, x, beta), 2 * ulps);
  return multiply(dtype, attribute_range(dtype, alpha), gate);
}

Range scaled_softplus_of(DType dtype, const Range& x, double alpha, double beta, int ulps) {
  if (!std::isfinite(alpha) || !std::isfinite(beta)) return top(dtype);
  const Range argument = scaled_argument(dtype, x, beta);
  // Not rounded to the dtype yet: 0.25 * softplus(1.5 * x) may be a number where the second factor is none.
  const Slack slack = slack_of(2 * ulps);
  const double relative = 2 * (slack.ulps + 1) * unit_roundoff(dtype);
  Range smooth = rising(DType::float64, argument, {.f = softplus, .floor = 0});
  if (smooth.has_finite()) {
    smooth.lo = std::max(smooth.lo * (1 - relative) - slack.ulps * min_subnormal(dtype), 0.0);
    smooth.hi = smooth.hi * (1 + relative) + slack.ulps * min_subnormal(dtype);
  }
  return multiply(dtype, attribute_range(dtype, alpha), smooth);
}

// ---- one line below zero, another above -------------------------------------

namespace {

// Strictly below zero, with -Inf.
Range negative_part(DType dtype, const Range& x) {
  Range part = part_of(x, -kInf, -min_subnormal(dtype));
  part.ninf = x.ninf;
  return part;
}

// Zero and above, with +Inf and NaN.
Range positive_part(const Range& x) {
  Range part = part_of(x, 0, kInf);
  part.pinf = x.pinf;
  part.nan = x.nan;
  return part;
}

}  // namespace

Range leaky_relu_of(DType dtype, const Range& x, const Range& slope) {
  Range range = join(multiply(dtype, slope, negative_part(dtype, x)), positive_part(x));
  range.nan |= !x.is_empty() && slope.nan;
  // max(0, x) + slope * min(0, x), for libraries that write it so.
  range.nan |= (slope.pinf || slope.ninf) && x.greatest() >= 0;
  return range;
}

Range thresholded_relu_of(DType dtype, const Range& x, double alpha) {
  const Range zero = from_bounds(dtype, 0, 0);
  if (std::isnan(alpha)) return x.is_empty() ? x : join(x, zero);
  Range range = part_of(x, first_above(dtype, alpha), kInf);
  range.pinf = x.pinf;
  range.nan = x.nan;
  if (x.nan || x.least() <= last_not_above(dtype, alpha)) range = join(range, zero);
  return range;
}

namespace {

// scale * (exp(x / width) - 1) for x below zero, the usual formula cancels near zero. The limit on the far side is the
// scale, or up to `roundings` units more where it is a product.
Range exponential_part(DType dtype, const Range& x, double scale, double width, int ulps, int roundings = 0) {
  const double unit = unit_roundoff(dtype);
  const double absolute = 4 * unit * std::abs(scale);
  const double most = attribute_range(dtype, scale).magnitude() * (1 + roundings * unit);
  const double limit = round_to(dtype, most) < most ? next_up(dtype, round_to(dtype, most)) : round_to(dtype, most);
  const auto f = [&](double v) { return std::abs(scale) * std::expm1(v / width); };
  const Range rises =
      rising(dtype, negative_part(dtype, x),
             {.f = f, .slack = slack_of(2 * ulps, absolute), .floor = width > 0 ? -limit : -kInf, .ceiling = 0});
  return scale < 0 ? negate(dtype, rises) : rises;
}

}  // namespace

Range elu_of(DType dtype, const Range& x, double alpha, int ulps) {
  if (!std::isfinite(alpha)) return top(dtype);
  return join(exponential_part(dtype, x, alpha, 1, ulps), positive_part(x));
}

Range celu_of(DType dtype, const Range& x, double alpha, int ulps) {
  if (!std::isfinite(alpha)) return top(dtype);
  if (x.is_empty()) return x;
  if (alpha == 0) {
    // 0 * (exp(x / 0) - 1)
    Range range = x.may_be_negative() ? from_bounds(dtype, 0, 0) : Range{};
    range.nan = x.nan || x.greatest() >= 0 || std::signbit(alpha);
    return range;
  }
  const double width = std::abs(alpha);
  if (alpha > 0) return join(exponential_part(dtype, x, alpha, width, ulps), positive_part(x));
  // Below zero it falls without limit; the exponential multiplies the error of x / alpha.
  const auto f = [&](double v) { return alpha * std::expm1(v / alpha); };
  const int amplified = ulps * static_cast<int>(2 + std::log(max_finite(dtype)));
  const Slack slack{.ulps = amplified, .absolute = ulps * unit_roundoff(dtype) * width};
  const Range below = rising(dtype, negative_part(dtype, x), {.f = f, .slack = slack, .ceiling = 0});
  return join(below, positive_part(x));
}

Range selu_of(DType dtype, const Range& x, double alpha, double gamma, int ulps) {
  if (!std::isfinite(alpha * gamma)) return top(dtype);
  const Range above = multiply(dtype, attribute_range(dtype, gamma), positive_part(x));
  return join(exponential_part(dtype, x, alpha * gamma, 1, ulps, 4), above);
}

Range hard_sigmoid_of(DType dtype, const Range& x, double alpha, double beta) {
  if (!std::isfinite(alpha) || !std::isfinite(beta)) return top(dtype);
  if (x.is_empty()) return x;
  const Range line = affine_of(dtype, x, attribute_range(dtype, alpha), attribute_range(dtype, beta));
  Range range = maximum(minimum(line, point(1)), point(0));
  range.integer = false;
  if (line.nan) range = join(range, from_bounds(dtype, 0, 1));
  return range;
}

Range shrink_of(DType dtype, const Range& x, double bias, double limit) {
  if (!std::isfinite(bias) || !std::isfinite(limit)) return top(dtype);
  if (x.is_empty()) return x;
  const Range b = attribute_range(dtype, bias);
  Range below = part_of(x, -kInf, -first_above(dtype, limit));
  below.ninf = x.ninf;
  // What is below -limit was taken already; a negative limit makes the two overlap.
  const double last = last_not_above(dtype, limit);
  Range above = part_of(x, std::max(first_above(dtype, limit), -last), kInf);
  above.pinf = x.pinf;
  Range range = join(add(dtype, below, b), subtract(dtype, above, b));
  range.integer = !is_float(dtype) && range.has_finite();
  // Zero in between; NaN is neither below nor above.
  const bool between = x.nan || (x.greatest() >= -last && x.least() <= last);
  if (between) range = join(range, from_bounds(dtype, 0, 0));
  range.nan |= x.nan;
  return range;
}

// ---- gates: x times something that rises from 0 to 1 ----------------------------

namespace {

struct Gate {
  std::function<double(double)> f = {};
  double dip = 0;            // where the minimum is
  double reach = 40;         // the gate is 0 or 1 to the last digit beyond
  double unit = 0;           // the gate is exact to 8 of these
  bool overshoots = false;   // the computed gate may leave [0, 1]
  bool exceeds_one = false;  // by one unit, upwards
};

Range gated(DType dtype, const Range& x, const Gate& gate, int ulps) {
  Range range;
  if (x.has_finite()) {
    const double a = gate.f(x.lo), b = gate.f(x.hi);
    const double least = x.lo < gate.dip && x.hi > gate.dip ? gate.f(gate.dip) : std::min(a, b);
    const double off = 8 * gate.unit * std::min(x.magnitude(), gate.reach);
    range = granted(dtype, least, std::max(a, b), slack_of(ulps, off));
    if (!gate.overshoots || x.magnitude() == 0) {
      if (x.lo >= 0) range.lo = std::max(range.lo, 0.0);
      const double most = std::max(x.hi, 0.0);
      range.hi = std::min(range.hi, gate.exceeds_one ? next_up(dtype, next_up(dtype, most)) : most);
    }
  }
  if (x.pinf) range.pinf = true;
  // -Inf times 0, or the limit.
  if (x.ninf) range = join(range, from_bounds(dtype, 0, 0));
  range.nan |= x.nan || x.ninf;
  return range;
}

double times_sigmoid(double x, double alpha) {
  const double e = std::exp(-std::abs(alpha * x));
  return x * ((alpha * x >= 0 ? 1.0 : e) / (1.0 + e));
}

}  // namespace

Range swish_of(DType dtype, const Range& x, double alpha, int ulps) {
  constexpr double kDip = -1.2784645427610738;  // 1 + exp(t) + t = 0
  if (!std::isfinite(alpha)) return top(dtype);
  if (alpha < 0) return negate(dtype, swish_of(dtype, negate(dtype, x), -alpha, ulps));
  const Range a = attribute_range(dtype, alpha);
  if (a.lo <= 0) {
    // Half of x; a factor that is lost in the format leaves about that.
    Range range = multiply(dtype, x, alpha == 0 ? point(0.5) : Range{.lo = 0.4, .hi = 0.6});
    range.nan |= x.pinf || x.ninf;
    return range;
  }
  const Gate gate{.f = [=](double v) { return times_sigmoid(v, alpha); },
                  .dip = kDip / alpha,
                  .reach = 40 / a.lo,
                  .unit = unit_roundoff(dtype),
                  .exceeds_one = limit_of(kSigmoid, dtype, 1, ulps) > 1};
  return gated(dtype, x, gate, ulps);
}

Range mish_of(DType dtype, const Range& x, int ulps) {
  const Gate gate{.f = [](double v) { return v * std::tanh(softplus(v)); },
                  .dip = -1.1924312144743732,
                  .unit = unit_roundoff(dtype),
                  .overshoots = true};
  Range range = gated(dtype, x, gate, ulps);
  // tanh(softplus(x)) may be too large but is not negative.
  if (x.has_finite() && x.hi <= 0) range.hi = std::min(range.hi, 0.0);
  if (x.has_finite() && x.lo >= 0) range.lo = std::max(range.lo, 0.0);
  return range;
}

Range gelu_of(DType dtype, const Range& x, int ulps) {
  const Gate gate{.f = [](double v) { return 0.5 * v * std::erfc(-v / std::numbers::sqrt2); },
                  .dip = -0.7517915243485529,
                  .unit = unit_roundoff(dtype)};
  return gated(dtype, x, gate, ulps);
}

Range gelu_by_tanh_of(DType dtype, const Range& x, int ulps) {
  const auto f = [](double v) {
    const double inner = std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    return 0.5 * v * (1.0 + std::tanh(inner));
  };
  // ONNX Runtime keeps the constants in float32, also for float64.
  const Gate gate{.f = f,
                  .dip = -0.7524614219088841,
                  .unit = std::max(unit_roundoff(dtype), unit_roundoff(DType::float32)),
                  .overshoots = true};
  return gated(dtype, x, gate, ulps);
}

Range hard_swish_of(DType dtype, const Range& x, int ulps) {
  // Outside [-3, 3] the gate is exactly 0 or 1.
  const auto f = [](double v) { return v * std::clamp(v / 6.0 + 0.5, 0.0, 1.0); };
  return gated(dtype, x, {.f = f, .dip = -1.5, .reach = 3.125, .unit = unit_roundoff(dtype)}, ulps);
}

// ---- rules -----------------------------------------------------------------

void range_swish(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_mapped(call, Monotone::no, [&](const Range& x, DType dtype) { return swish_of(dtype, x, alpha, call.ulps()); });
}

}  // namespace finity
