// Ranges of the functions that ops compute element by element. A bound must hold for
// every correct library, not only for eval. + - * / and sqrt are correctly rounded
// everywhere; anything else is granted an error (grants.h), measured on ONNX Runtime's
// CPU kernels against extended precision and rounded up. Gates (x * sigmoid(x), gelu, ...)
// and 1 - exp(x) are granted units of 1 or of x instead: their usual formulas cancel where
// the result is small.
//
// Not granted: leaving the values a function takes exactly. exp(0) is 1, log(1) is 0,
// tanh(0) is 0, ..., and what lies right of such a point is not below its value.
// Whether a result overflows is decided by the correctly rounded value, so that
// exp is safe exactly up to the largest argument with a finite result.
//
// All take the operand's range and the units in the last place that are granted (0: the
// library rounds correctly), are total, and carry NaN and infinities: log_of gives -Inf
// for 0 and NaN for what is below.
#pragma once

#include <functional>
#include <limits>

#include "domain/range.h"
#include "ops/table/grants.h"

namespace finity {

// ---- building blocks -------------------------------------------------------
// How far an end may be off: the larger of the two, both sides.
struct Slack {
  int ulps = 0;         // units of the dtype at the result
  double absolute = 0;  // real
};
inline Slack slack_of(int ulps, double absolute = 0) { return {.ulps = ulps, .absolute = ulps > 0 ? absolute : 0}; }
// Unit roundoff of what a library computes in: float32 for the narrow formats.
inline double float_unit(DType dtype) { return dtype == DType::float64 ? 0x1p-53 : 0x1p-24; }

// Real bounds of a function's values as a range of the dtype: rounded, moved outwards by the slack, kept inside
// [floor, ceiling]. The slack alone never makes an infinity.
Range granted(DType dtype, double lo, double hi, const Slack& slack, double floor = -kInf, double ceiling = kInf);

// A function that increases on the whole range given to it.
struct Rising {
  std::function<double(double)> f = {};
  Slack slack = {};
  double floor = -kInf;
  double ceiling = kInf;
  // A point where every library is exact: f(anchor_x) = anchor_y, and neither side crosses it.
  double anchor_x = std::numeric_limits<double>::quiet_NaN();  // NaN: there is none
  double anchor_y = 0;
};
Range rising(DType dtype, const Range& x, const Rising& function);

// The finite values of x in [lo, hi], without NaN and infinities.
Range part_of(const Range& x, double lo, double hi);
// An attribute in an op that computes in `dtype`: libraries may round it first.
Range attribute_range(DType dtype, double value);
// The smallest number of the dtype that may count as above an attribute, and the largest that may not: libraries
// compare with the attribute itself or with what it is rounded to.
double first_above(DType dtype, double value);
double last_not_above(DType dtype, double value);
// a * x + b, rounded once or after each step.
Range affine_of(DType dtype, const Range& x, const Range& a, const Range& b);

// ---- what is granted to functions that need more than the usual 4 units ------------
inline constexpr Grants kCoarse = {.specified = {.ulps = 8}};
inline constexpr Grants kArcCosine = {.specified = {.ulps = 8, .of_one = 2}};
// Rational approximations: 0 already at -16.6, and above 1 for 20 values between 17.48 and 18. Without fused
// multiplications and additions (evaluated, not measured) for 281 values from 16.39 on.
inline constexpr Grants kSigmoid = {
    .specified = {.ulps = 4, .of_one = 3}, .measured = {.beyond = 2}, .measured_on = kOnnxRuntime};
// 1 + 4 u around 8.6; two more for other processors.
inline constexpr Grants kTanh = {.specified = {.ulps = 8}, .measured = {.beyond = 6}, .measured_on = kOnnxRuntime};
// A quotient of approximate reciprocals, near the largest numbers.
inline constexpr Grants kSoftsign = {.measured = {.beyond = 4}, .measured_on = kOnnxRuntime};
// `value`, or what kernels may exceed it by in float32.
inline double limit_of(const Grants& grants, DType dtype, double value, int ulps) {
  return ulps > 0 && dtype == DType::float32 ? value + grants.measured.beyond * 0x1p-24 : value;
}

// ---- elementary functions --------------------------------------------------
Range exp_of(DType dtype, const Range& x, int ulps);
Range log_of(DType dtype, const Range& x, int ulps);
Range sqrt_of(DType dtype, const Range& x, int ulps = 0);
Range erf_of(DType dtype, const Range& x, int ulps);
Range sin_of(DType dtype, const Range& x, int ulps);
Range cos_of(DType dtype, const Range& x, int ulps);
Range tan_of(DType dtype, const Range& x, int ulps);
Range asin_of(DType dtype, const Range& x, int ulps);
Range acos_of(DType dtype, const Range& x, int ulps);
Range atan_of(DType dtype, const Range& x, int ulps);
Range sinh_of(DType dtype, const Range& x, int ulps);
Range cosh_of(DType dtype, const Range& x, int ulps);
Range tanh_of(DType dtype, const Range& x, int ulps);
Range asinh_of(DType dtype, const Range& x, int ulps);
Range acosh_of(DType dtype, const Range& x, int ulps);
Range atanh_of(DType dtype, const Range& x, int ulps);
// Is there an odd multiple of pi / 2 between the ends, or may there be one?
bool may_cross_tan_pole(const Range& x);

// ---- exact ones ------------------------------------------------------------
Range reciprocal_of(DType dtype, const Range& x, int ulps = 0);
Range floor_of(DType dtype, const Range& x, int ulps = 0);
Range ceil_of(DType dtype, const Range& x, int ulps = 0);
Range round_of(DType dtype, const Range& x, int ulps = 0);  // halves to even
Range sign_of(DType dtype, const Range& x, int ulps = 0);

// ---- activations -----------------------------------------------------------
Range relu_of(DType dtype, const Range& x);
Range sigmoid_of(DType dtype, const Range& x, int ulps);
Range softplus_of(DType dtype, const Range& x, int ulps);
Range softsign_of(DType dtype, const Range& x, int ulps);
// alpha * tanh(beta * x)
Range scaled_tanh_of(DType dtype, const Range& x, double alpha, double beta, int ulps);
// alpha * softplus(beta * x)
Range scaled_softplus_of(DType dtype, const Range& x, double alpha, double beta, int ulps);
// slope * x below zero, x elsewhere.
Range leaky_relu_of(DType dtype, const Range& x, const Range& slope);
Range thresholded_relu_of(DType dtype, const Range& x, double alpha);
// alpha * (exp(x) - 1) below zero, x elsewhere.
Range elu_of(DType dtype, const Range& x, double alpha, int ulps);
Range celu_of(DType dtype, const Range& x, double alpha, int ulps);
Range selu_of(DType dtype, const Range& x, double alpha, double gamma, int ulps);
Range hard_sigmoid_of(DType dtype, const Range& x, double alpha, double beta);
Range hard_swish_of(DType dtype, const Range& x, int ulps);
Range shrink_of(DType dtype, const Range& x, double bias, double limit);
// x * sigmoid(alpha * x)
Range swish_of(DType dtype, const Range& x, double alpha, int ulps);
Range mish_of(DType dtype, const Range& x, int ulps);
Range gelu_of(DType dtype, const Range& x, int ulps);
Range gelu_by_tanh_of(DType dtype, const Range& x, int ulps);

}  // namespace finity
