// Elementwise functions that ONNX does not have but TensorFlow, PyTorch and gradients do, in finity's own domain:
// log(1 + x), exp(x) - 1, 1 / sqrt(x), 1 - erf(x), the angle of a point, the logarithm of the gamma function and its
// derivatives.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/function_range.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";
constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";
constexpr double kPi = std::numbers::pi;
// Where the gamma function is smallest right of zero, and its logarithm there, rounded down.
constexpr double kLeastGammaAt = 1.4616321449683623;
constexpr double kLeastLogGamma = -0.12148629053584962;

// ---- functions -------------------------------------------------------------

double inverse_root(double x) { return 1 / std::sqrt(x); }

bool is_pole(double x) { return x <= 0 && x == std::floor(x); }

double log_gamma(double x) {
  if (std::isnan(x)) return x;
  return is_pole(x) ? kInf : std::lgamma(x);
}

// Right of zero: steps up until the asymptotic series is exact to double's last digits.
double digamma_of_positive(double x) {
  double sum = 0;
  for (; x < 12; x += 1) sum -= 1 / x;
  const double inverse = 1 / x, square = inverse * inverse;
  constexpr double kTerms[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double power = square;
  sum += std::log(x) - inverse / 2;
  for (const double term : kTerms) {
    sum -= term * power;
    power *= square;
  }
  return sum;
}

// Left of zero by reflection; poles and minus infinity have no value.
double digamma(double x) {
  if (std::isnan(x) || x == kInf) return x;
  if (x == 0) return std::copysign(kInf, -x);
  if (x > 0) return digamma_of_positive(x);
  if (is_pole(x)) return std::nan("");
  const double fraction = x - std::round(x);  // exact; the tangent has period 1 in it
  return digamma_of_positive(1 - x) - kPi / std::tan(kPi * fraction);
}

// (-1)^(n+1) n! times the sum of 1 / (x + k)^(n+1) over all k >= 0, right of zero: steps up until Euler and Maclaurin's
// series for the rest is exact to double's last digits.
double polygamma_of_positive(int n, double x) {
  const double s = n + 1;
  double sum = 0;
  for (; x < 12 + n; x += 1) sum += std::pow(x, -s);
  sum += std::pow(x, 1 - s) / (s - 1) + std::pow(x, -s) / 2;
  constexpr double kTerms[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000, 1.0 / 74724249600};
  double power = s * std::pow(x, -s - 1), next = s + 1;
  for (const double term : kTerms) {
    sum += term * power;
    power *= next * (next + 1) / (x * x);
    next += 2;
  }
  return (n % 2 == 0 ? -1 : 1) * std::tgamma(n + 1.0) * sum;
}

// Derivative number n of the cotangent of x is a polynomial in it: each is -(1 + c^2) times the slope of the one
// before.
double cotangent_derivative(int n, double cotangent) {
  std::vector<double> factors = {0, 1};
  for (int i = 0; i < n; ++i) {
    std::vector<double> next(factors.size() + 1);
    for (std::size_t k = 1; k < factors.size(); ++k) {
      next[k - 1] -= static_cast<double>(k) * factors[k];
      next[k + 1] -= static_cast<double>(k) * factors[k];
    }
    factors = std::move(next);
  }
  double sum = 0;
  for (std::size_t k = factors.size(); k-- > 0;) sum = sum * cotangent + factors[k];
  return sum;
}

// Derivative number n >= 1 of digamma. At a pole even ones leave for both infinities, as digamma does.
double polygamma(int n, double x) {
  if (std::isnan(x)) return x;
  if (x == kInf) return 0;
  if (x == -kInf) return std::nan("");
  if (x > 0) return polygamma_of_positive(n, x);
  const bool even = n % 2 == 0;
  if (is_pole(x)) return even ? std::nan("") : kInf;
  const double cotangent = 1 / std::tan(kPi * (x - std::round(x)));
  const double mirrored = polygamma_of_positive(n, 1 - x);
  return (even ? mirrored : -mirrored) - std::pow(kPi, n + 1) * cotangent_derivative(n, cotangent);
}

double trigamma(double x) { return polygamma(1, x); }

// Beyond the largest factorials of double.
constexpr std::int64_t kMostDerivatives = 128;

int order_of(const Call& call) {
  const std::int64_t n = call.integer("n");
  if (n < 1 || n > kMostDerivatives) throw Error("attribute 'n' is " + std::to_string(n));
  return static_cast<int>(n);
}

void eval_polygamma(EvalCall& call) {
  const Tensor& x = call.in(0);
  const int n = order_of(call);
  std::vector<double> values = elements<double>(x);
  for (double& value : values) value = polygamma(n, value);
  call.out(0, from_elements<double>(x.dtype(), x.dims(), values));
}

// ---- ranges ----------------------------------------------------------------

Range log1p_of(DType dtype, const Range& x, int ulps) {
  Range domain = part_of(x, next_up(dtype, -1), kInf);
  domain.pinf = x.pinf;
  Range range =
      rising(dtype, domain, {.f = [](double v) { return std::log1p(v); }, .slack = slack_of(ulps), .anchor_x = 0});
  range.ninf |= x.contains(-1);
  range.nan |= x.nan || x.ninf || (x.has_finite() && x.lo < -1);
  return range;
}

Range expm1_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, x,
                {.f = [](double v) { return std::expm1(v); }, .slack = slack_of(ulps), .floor = -1, .anchor_x = 0});
}

// Falls right of zero. Some libraries start from an estimate of the hardware.
Range rsqrt_of(DType dtype, const Range& x, int ulps) {
  Range range;
  const Range domain = part_of(x, min_subnormal(dtype), kInf);
  if (domain.has_finite())
    range = granted(dtype, inverse_root(domain.hi), inverse_root(domain.lo), slack_of(std::max(ulps, 1)), 0);
  if (x.pinf) range = join(range, point(0));
  range.pinf |= x.may_be_zero();
  range.ninf |= x.may_be_zero();  // of minus zero
  range.nan |= x.nan || x.may_be_negative();
  return range;
}

// Falls from 2 to 0.
Range erfc_of(DType dtype, const Range& x, int ulps) {
  return rising(dtype, negate(dtype, x),
                {.f = [](double v) { return std::erfc(-v); },
                 .slack = slack_of(ulps),
                 .floor = 0,
                 .ceiling = 2,
                 .anchor_x = 0,
                 .anchor_y = 1});
}

void eval_atan2(EvalCall& call) {
  call.out(0, map_binary(call.in(0), call.in(1), call.in(0).dtype(),
                         [](auto y, auto x) { return std::atan2(static_cast<double>(y), static_cast<double>(x)); }));
}

// By half planes: above and below the line through both axes' ends, and right of zero half a turn at most.
void range_atan2(RangeCall& call) {
  const int ulps = call.ulps();
  range_binary(call, [&](const Range& y, const Range& x, DType dtype) {
    if (y.is_empty() || x.is_empty()) return Range{};
    const double most = x.least() > 0 ? kPi / 2 : kPi;
    const bool numbers = (y.has_finite() || y.pinf || y.ninf) && (x.has_finite() || x.pinf || x.ninf);
    // Minus zero counts as below the line.
    Range angle =
        numbers ? granted(dtype, y.least() > 0 ? 0 : -most, y.greatest() < 0 ? 0 : most, slack_of(ulps)) : Range{};
    angle.nan = y.nan || x.nan;
    return angle;
  });
}

bool may_be_pole(const Range& x) { return x.has_finite() && x.lo <= 0 && std::floor(std::min(x.hi, 0.0)) >= x.lo; }

// How near a number of the dtype left of zero can be to a pole without being one.
double least_distance_to_pole(DType dtype, const Range& x) {
  const double near_zero = x.hi < 0 ? -x.hi : min_subnormal(dtype);
  const double elsewhere = unit_roundoff(dtype);  // the steps between numbers right below one
  return std::min(near_zero, elsewhere);
}

// |gamma(x)| = pi / (|sin(pi x)| gamma(1 - x)), and |sin(pi x)| lies between twice the distance to a pole and 1.
Range log_gamma_left_of_zero(DType dtype, const Range& x, int ulps) {
  if (x.lo == x.hi && is_pole(x.lo)) return {};
  if (x.lo == x.hi) return granted(dtype, log_gamma(x.lo), log_gamma(x.lo), slack_of(2 * ulps, 16 * float_unit(dtype)));
  const double largest = std::max({std::lgamma(1 - x.lo), std::lgamma(1 - x.hi), 0.0});
  const double hi = std::log(kPi) - std::log(2 * least_distance_to_pole(dtype, x)) - kLeastLogGamma;
  return granted(dtype, std::log(kPi) - largest, hi, slack_of(2 * ulps, 1e-5));
}

// Away from the poles.
Range log_gamma_of(DType dtype, const Range& x, int ulps) {
  Range range{.nan = x.nan, .pinf = x.pinf || x.ninf};
  const Range right = part_of(x, min_subnormal(dtype), kInf), left = part_of(x, -kInf, -min_subnormal(dtype));
  // Between 1 and 2, where it vanishes, libraries are off by units of 1.
  const Slack slack = slack_of(2 * ulps, 16 * float_unit(dtype));
  if (right.has_finite()) {
    const double a = std::lgamma(right.lo), b = std::lgamma(right.hi);
    const bool turns = right.lo < kLeastGammaAt && right.hi > kLeastGammaAt;
    range = join(range, granted(dtype, turns ? kLeastLogGamma : std::min(a, b), std::max(a, b), slack));
  }
  if (left.has_finite()) range = join(range, log_gamma_left_of_zero(dtype, left, ulps));
  return range;
}

// Away from the poles.
Range digamma_range(DType dtype, const Range& x, int ulps) {
  Range range{.nan = x.nan || x.ninf, .pinf = x.pinf};
  const Slack slack = slack_of(2 * ulps, 16 * float_unit(dtype));
  const Range right = part_of(x, min_subnormal(dtype), kInf), left = part_of(x, -kInf, -min_subnormal(dtype));
  if (right.has_finite())
    range = join(range, granted(dtype, digamma_of_positive(right.lo), digamma_of_positive(right.hi), slack));
  if (left.has_finite() && left.lo == left.hi) {
    if (!is_pole(left.lo)) range = join(range, granted(dtype, digamma(left.lo), digamma(left.lo), slack));
  } else if (left.has_finite()) {  // |pi / tan(pi x)| is at most 1 over the distance to a pole
    const double most = digamma_of_positive(1 - left.lo) + 1 / least_distance_to_pole(dtype, left);
    range = join(range, granted(dtype, -most, most, slack));
  }
  return range;
}

// Derivative number n of digamma: the sum of n! / |x + k|^(n+1) over all k >= 0, odd ones with the sign of x + k. It
// goes to zero right of zero. Left of it two poles are nearest, on both sides, and all others at least 1, 2, ... away.
Range polygamma_range(int n, DType dtype, const Range& x, int ulps) {
  const bool even = n % 2 == 0;
  Range range{.nan = x.nan || x.ninf};
  if (x.pinf) range = join(range, point(0));
  const Slack slack = slack_of(2 * ulps, 16 * float_unit(dtype));
  const Range right = part_of(x, min_subnormal(dtype), kInf), left = part_of(x, -kInf, -min_subnormal(dtype));
  if (right.has_finite()) {
    const double far = polygamma_of_positive(n, right.hi), near = polygamma_of_positive(n, right.lo);
    range = join(range, granted(dtype, even ? near : far, even ? far : near, slack));
  }
  if (left.has_finite() && left.lo == left.hi) {
    if (!is_pole(left.lo)) range = join(range, granted(dtype, polygamma(n, left.lo), polygamma(n, left.lo), slack));
  } else if (left.has_finite()) {
    const double factorial = std::tgamma(n + 1.0);
    const double most = factorial * (2 * std::pow(least_distance_to_pole(dtype, left), -(n + 1)) + 4);
    // Halfway between two poles an odd one is at least what these two give.
    range = join(range, granted(dtype, even ? -most : factorial * std::pow(2, n + 2), most, slack));
  }
  return range;
}

Range trigamma_range(DType dtype, const Range& x, int ulps) { return polygamma_range(1, dtype, x, ulps); }

// The poles are too many for a list of unsafe values. They are assumed not to be met.
void report_poles(RangeCall& call) {
  const Range x = call.hull(0);
  bool possible = false;
  bool certain = true;
  for (const Range& cell : call.in(0).cells) {
    possible |= may_be_pole(cell);
    certain &= cell.has_finite() && cell.lo == cell.hi && is_pole(cell.lo) && !cell.nan && !cell.pinf && !cell.ninf;
  }
  call.site("FN111", 0, x, possible, possible && certain);
}

template <Range (*F)(DType, const Range&, int)>
void range_with_poles(RangeCall& call) {
  report_poles(call);
  range_elementwise<F>(call);
}

void range_polygamma(RangeCall& call) {
  const int n = order_of(call);
  report_poles(call);
  range_mapped(call, Monotone::no,
               [&](const Range& x, DType dtype) { return polygamma_range(n, dtype, x, call.ulps()); });
}

void polygamma_gradient(BuildCall& call) {
  const auto slope = [&](std::int64_t n) {
    Attrs attrs;
    attrs.set("n", n);
    return call.add("finity:Polygamma", {call.in(0)}, std::move(attrs));
  };
  call.give(0, call.product(call.grad(0), slope(call.integer("n") + 1)));
}

// ---- the table -------------------------------------------------------------

UnsafeSet at_most_minus_one(DType dtype) { return is_float(dtype) ? UnsafeSet{{-kInf, -1}} : UnsafeSet{}; }
UnsafeSet not_positive(DType dtype) { return is_float(dtype) ? UnsafeSet{{-kInf, 0}} : UnsafeSet{}; }

constexpr Hazard kLog1p[] = {{.rule = "FN103", .operand = 0, .unsafe = at_most_minus_one}};
constexpr Hazard kRsqrt[] = {{.rule = "FN105", .operand = 0, .unsafe = not_positive}};

const OpDef kOps[] = {
    {.identity = {.name = "Log1p",
                  .domain = kDomain,
                  .summary = "log(1 + x), exact also where x is small",
                  .signature = kFloatToFloat,
                  .tf = "Log1p"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::log1p>},
     .analysis = {.range = range_rising<log1p_of>, .vjp = gradients<"X: Div(dY, Add(1, X))">, .hazards = kLog1p},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Expm1",
                  .domain = kDomain,
                  .summary = "exp(x) - 1, exact also where x is small",
                  .signature = kFloatToFloat,
                  .tf = "Expm1"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::expm1>},
     .analysis = {.range = range_rising<expm1_of>, .vjp = gradients<"X: Mul(dY, Exp(X))">, .overflow = "FN201"},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Rsqrt",
                  .domain = kDomain,
                  .summary = "1 / sqrt(x), NaN below zero",
                  .signature = kFloatToFloat,
                  .tf = "Rsqrt"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<inverse_root>},
     .analysis = {.range = range_elementwise<rsqrt_of>,
                  .vjp = gradients<"X: Mul(dY, Mul(-0.5, Div(Y, X)))">,
                  .hazards = kRsqrt},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Erfc",
                  .domain = kDomain,
                  .summary = "1 - erf(x), exact also where that is small",
                  .signature = kFloatToFloat,
                  .tf = "Erfc"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::erfc>},
     .analysis = {.range = range_elementwise<erfc_of>,
                  .vjp = gradients<"X: Mul(dY, Mul(-1.1283791670955126, Exp(Neg(Mul(X, X)))))">},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Atan2",
                  .domain = kDomain,
                  .summary = "angle of the point (x, y) from the first axis, in [-pi, pi]",
                  .signature = "(Y: T, X: T) -> (Z: T) where T: float",
                  .tf = "Atan2"},
     .meaning = {.infer = infer_broadcast, .eval = eval_atan2},
     .analysis =
         {.range = range_atan2,
          .vjp = gradients<
              "Y: Div(Mul(dZ, X), Add(Mul(X, X), Mul(Y, Y))); X: Neg(Div(Mul(dZ, Y), Add(Mul(X, X), Mul(Y, Y))))">},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Lgamma",
                  .domain = kDomain,
                  .summary =
                      "logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers",
                  .signature = kFloatToFloat,
                  .tf = "Lgamma"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<log_gamma>},
     .analysis = {.range = range_with_poles<log_gamma_of>,
                  .vjp = gradients<"X: Mul(dY, finity:Digamma(X))">,
                  .hazards = pole_hazards(),
                  .overflow = "FN209"},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Digamma",
                  .domain = kDomain,
                  .summary = "derivative of Lgamma; undefined at 0 and the negative integers",
                  .signature = kFloatToFloat,
                  .tf = "Digamma"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<digamma>},
     .analysis = {.range = range_with_poles<digamma_range>,
                  .vjp = gradients<"X: Mul(dY, finity:Trigamma(X))">,
                  .hazards = pole_hazards(),
                  .overflow = "FN209"},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Trigamma",
                  .domain = kDomain,
                  .summary = "derivative of Digamma; infinite at 0 and the negative integers",
                  .signature = kFloatToFloat},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<trigamma>},
     .analysis = {.range = range_with_poles<trigamma_range>,
                  .vjp = gradients<"X: Mul(dY, finity:Polygamma(X, n=2))">,
                  .hazards = pole_hazards(),
                  .overflow = "FN209"},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Polygamma",
                  .domain = kDomain,
                  .summary = "derivative number n of Digamma; infinite or undefined at 0 and the negative integers",
                  .signature = kFloatToFloat,
                  .attrs = "n: int = 1"},
     .meaning = {.infer = infer_same_shape, .eval = eval_polygamma},
     .analysis = {.range = range_polygamma, .vjp = polygamma_gradient, .hazards = pole_hazards(), .overflow = "FN209"},
     .traits = {.elementwise = true}},
};

}  // namespace

std::span<const OpDef> special_ops() { return kOps; }

}  // namespace finity
