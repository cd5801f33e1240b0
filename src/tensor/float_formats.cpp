#include "tensor/float_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace finity {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double overflowed(const FloatFormat& format, double x) {
  if (format.infinite) return std::copysign(kInf, x);
  return format.nan ? kNaN : std::copysign(format.max_finite, x);
}

// 2^exponent for any exponent of a narrow format, without a call to libm.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

int exponent_of(double x) { return static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff) - 1023; }

double round_narrow(const FloatFormat& format, double x) {
  if (std::isnan(x)) return format.nan ? x : std::copysign(format.max_finite, x);
  if (std::isinf(x)) return overflowed(format, x);
  const int exponent = std::max(exponent_of(x), format.min_exponent);
  const double quantum = power_of_two(exponent - format.mantissa_bits);
  double rounded = std::nearbyint(x / quantum) * quantum;
  if (std::abs(rounded) > format.max_finite) return overflowed(format, x);
  if (rounded == 0 && !format.negative_zero) rounded = 0.0;
  return rounded;
}

// Only powers of two, no sign and no zero: what cannot be expressed is NaN or the smallest power.
double round_e8m0(double x) {
  if (std::isnan(x) || x < 0) return kNaN;
  if (x == 0) return 0x1p-127;
  if (std::isinf(x)) return kNaN;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  // Ties (fraction 0.75) go up, as ONNX's conversion does.
  const int power = exponent - 1 + (fraction >= 0.75 ? 1 : 0);
  if (power > 127) return kNaN;
  return std::ldexp(1.0, std::max(power, -127));
}

int exponent_bits(DType dtype, const FloatFormat& format) { return info(dtype).bits - 1 - format.mantissa_bits; }

// The number of codes above the largest finite one that mean NaN or Inf differs by format:
//   IEEE-like (f16, bf16, e5m2): exponent all ones; e4m3fn: all ones; fnuz: only 0x80.
std::uint32_t nan_bits(DType dtype) {
  switch (dtype) {
    case DType::float32: return 0x7fc00000;
    case DType::float16: return 0x7e00;
    case DType::bfloat16: return 0x7fc0;
    case DType::float8e4m3fn: return 0x7f;
    case DType::float8e5m2: return 0x7e;
    case DType::float8e8m0: return 0xff;
    default: return 0x80;  // fnuz
  }
}

std::uint32_t encode_e8m0(double rounded) {
  if (std::isnan(rounded)) return 0xff;
  return static_cast<std::uint32_t>(std::ilogb(rounded) + 127);
}

}  // namespace

double round_to(DType dtype, double x) {
  if (dtype == DType::float32) return static_cast<double>(static_cast<float>(x));
  if (dtype == DType::float64) return x;
  if (dtype == DType::float8e8m0) return round_e8m0(x);
  return round_narrow(float_format(dtype), x);
}

std::uint32_t encode_float(DType dtype, double x) {
  if (dtype == DType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(x));
  const double rounded = round_to(dtype, x);
  if (dtype == DType::float8e8m0) return encode_e8m0(rounded);
  const FloatFormat& format = float_format(dtype);
  const int sign_shift = info(dtype).bits - 1;
  const std::uint32_t sign = std::signbit(x) ? 1u << sign_shift : 0;
  if (std::isnan(rounded)) return nan_bits(dtype) == 0x80 ? 0x80 : (nan_bits(dtype) | sign);
  const std::uint32_t all_exponent = (1u << exponent_bits(dtype, format)) - 1;
  if (std::isinf(rounded)) return sign | (all_exponent << format.mantissa_bits);
  if (rounded == 0) return format.negative_zero ? sign : 0;
  const double magnitude = std::abs(rounded);
  const int exponent = std::max(exponent_of(magnitude), format.min_exponent);
  const auto mantissa = static_cast<std::uint32_t>(magnitude / power_of_two(exponent - format.mantissa_bits));
  // A normal number's mantissa carries the implicit bit, which adds one to the exponent field.
  return sign | (mantissa + (static_cast<std::uint32_t>(exponent - format.min_exponent) << format.mantissa_bits));
}

double decode_float(DType dtype, std::uint32_t bits) {
  if (dtype == DType::float32) return static_cast<double>(std::bit_cast<float>(bits));
  if (dtype == DType::float8e8m0) return bits == 0xff ? kNaN : std::ldexp(1.0, static_cast<int>(bits) - 127);
  const FloatFormat& format = float_format(dtype);
  const int sign_shift = info(dtype).bits - 1;
  const bool negative = ((bits >> sign_shift) & 1) != 0;
  if (!format.negative_zero && bits == 0x80) return kNaN;
  const std::uint32_t field = bits & ((1u << sign_shift) - 1);
  const std::uint32_t exponent = field >> format.mantissa_bits;
  const std::uint32_t mantissa = field & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t all_exponent = (1u << exponent_bits(dtype, format)) - 1;
  if (format.infinite && exponent == all_exponent) return mantissa != 0 ? kNaN : (negative ? -kInf : kInf);
  if (dtype == DType::float8e4m3fn && field == 0x7f) return kNaN;
  const std::uint32_t whole = exponent == 0 ? mantissa : mantissa + (1u << format.mantissa_bits);
  const int scale = format.min_exponent + (exponent == 0 ? 0 : static_cast<int>(exponent) - 1) - format.mantissa_bits;
  const double magnitude = static_cast<double>(whole) * power_of_two(scale);
  return negative ? -magnitude : magnitude;
}

}  // namespace finity
