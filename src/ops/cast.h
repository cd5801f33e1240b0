// Conversion of a whole tensor to another dtype, as the Cast op defines it.
#pragma once

#include "tensor/tensor.h"

namespace finity {

struct CastOptions {
  enum class Rounding : std::uint8_t { up, down, nearest };

  bool saturate = true;                // out of range for a float8 kind: its largest value instead of NaN or Inf
  bool saturate_infinity_fnuz = true;  // also an infinity, in the kinds without negative zero (opset 24 on)
  Rounding rounding = Rounding::up;    // to float8e8m0
};

// Throws Error for a string that is not a number.
Tensor cast(const Tensor& from, DType to, const CastOptions& options = {});

// A number as Cast writes it: the shortest digits that give it back in its dtype, plain between 1e-4 and 1e16.
std::string number_text(DType dtype, double value);

}  // namespace finity
