// Rounding to, encoding and decoding of the floating formats, exact in double:
// every format except float64 has at most 24 significant bits, so computing
// + - * / sqrt in double and rounding once gives the correctly rounded result
// of the narrow format (53 >= 2*24+2).
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace finity {

// Nearest value of the format, ties to even. Overflow gives Inf, or NaN in a
// format without Inf (a format without NaN saturates).
double round_to(DType dtype, double x);

// The format's bits for round_to(dtype, x), in the low bits; not for float64.
std::uint32_t encode_float(DType dtype, double x);
double decode_float(DType dtype, std::uint32_t bits);

// The least number of the format that has all its digits.
inline double min_normal(DType dtype) { return std::ldexp(1.0, float_format(dtype).min_exponent); }

}  // namespace finity
