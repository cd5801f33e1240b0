// Conversion of a whole tensor to another dtype, as the Cast op defines it.
#pragma once

#include "ops/table/range_call.h"
#include "tensor/tensor.h"

namespace finity {

struct CastOptions {
  enum class Rounding : std::uint8_t { up, down, nearest };

  bool saturate = true;                // out of range for a float8 kind: its largest value instead of NaN or Inf
  bool saturate_infinity_fnuz = true;  // also an infinity, in the kinds without negative zero (opset 24 on)
  Rounding rounding = Rounding::up;    // to float8e8m0
};

// The kinds of float8 without negative zero and infinities, and all four that hold fractions.
inline bool is_fnuz(DType dtype) { return dtype == DType::float8e4m3fnuz || dtype == DType::float8e5m2fnuz; }
inline bool is_float8(DType dtype) {
  return is_fnuz(dtype) || dtype == DType::float8e4m3fn || dtype == DType::float8e5m2;
}

// Throws Error for a string that is not a number.
Tensor cast(const Tensor& from, DType to, const CastOptions& options = {});

// What an element in the range may become. Floats outside an integer dtype (see fits_integer) are left out.
Range cast_range(const Range& x, DType from, DType to, const CastOptions& options = {});
// The part of a float range that an integer dtype can hold: rounded towards zero (to nearest below 8 bits) it is
// a number of the dtype. Without NaN and infinities.
Range fits_integer(const Range& x, DType to);
// The rule of ops that cast input 0 to output 0.
void range_cast(RangeCall& call, DType to, const CastOptions& options);

// A number as Cast writes it: the shortest digits that give it back in its dtype, plain between 1e-4 and 1e16.
std::string number_text(DType dtype, double value);

}  // namespace finity
