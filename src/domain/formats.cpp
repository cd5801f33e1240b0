// The float formats as the domain needs them: limits, neighbours, rounding errors.
#include <cmath>

#include "domain/range.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Distance between neighbours at and above |x|, for x of the format.
double spacing(const FloatFormat& format, double x) {
  const int exponent = x == 0 ? format.min_exponent : std::max(std::ilogb(x), format.min_exponent);
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

double next_up_from_positive(const FloatFormat& format, double x) {
  const double next = x + spacing(format, x);
  return next > format.max_finite ? kInf : next;
}

double next_down_from_positive(const FloatFormat& format, double x) {
  double step = spacing(format, x);
  const int exponent = std::ilogb(x);
  if (exponent > format.min_exponent && x == std::ldexp(1.0, exponent)) step /= 2;
  return x - step;
}

}  // namespace

double max_finite(DType dtype) {
  if (is_float(dtype)) return float_format(dtype).max_finite;
  if (is_int(dtype)) return static_cast<double>(int_max(dtype));
  return dtype == DType::boolean ? 1 : std::numeric_limits<double>::max();
}

double lowest_finite(DType dtype) {
  if (is_float(dtype)) return -float_format(dtype).max_finite;
  if (is_int(dtype)) return static_cast<double>(int_min(dtype));
  return dtype == DType::boolean ? 0 : -std::numeric_limits<double>::max();
}

double min_subnormal(DType dtype) {
  if (!is_float(dtype)) return 1;
  const FloatFormat& format = float_format(dtype);
  return std::ldexp(1.0, format.min_exponent - format.mantissa_bits);
}

double unit_roundoff(DType dtype) {
  return is_float(dtype) ? std::ldexp(1.0, -float_format(dtype).mantissa_bits - 1) : 0;
}

double next_up(DType dtype, double x) {
  if (std::isnan(x) || x == kInf) return x;
  if (!is_float(dtype)) return std::abs(x) < kExactIntegers ? x + 1 : std::nextafter(x, kInf);
  if (dtype == DType::float64) return std::nextafter(x, kInf);
  if (dtype == DType::float32) return std::nextafter(static_cast<float>(x), std::numeric_limits<float>::infinity());
  const FloatFormat& format = float_format(dtype);
  if (x == -kInf) return -format.max_finite;
  return x >= 0 ? next_up_from_positive(format, x) : -next_down_from_positive(format, -x);
}

double next_down(DType dtype, double x) { return -next_up(dtype, -x); }

double rounding_error(DType dtype, double magnitude) {
  if (!is_float(dtype)) return 0;
  return unit_roundoff(dtype) * magnitude + min_subnormal(dtype) / 2;
}

double summation_error(DType accumulator, double terms) {
  // (1 + u)^n - 1 holds for every n; the factor covers the rounding of this very line.
  return std::expm1(terms * std::log1p(unit_roundoff(accumulator))) * (1 + 1e-12);
}

}  // namespace finity
