// The two stages of layer-like normalisations (layer, group, RMS): rows are
// standardised in a "stash" dtype, rounding after every step as the definition
// does, and cast back; then scale and bias are applied in the output's dtype.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace finity {

struct Standardized {
  Tensor normalized;         // dtype and shape of x
  Tensor mean;               // one per row, in the stash dtype; zero when not centred
  Tensor inverse_deviation;  // likewise
};

enum class Centre : std::uint8_t { mean, zero };

// x seen as `rows` rows of equal length. With Centre::mean
//   D = X - Mean, InvStdDev = 1 / sqrt(mean(D * D) + epsilon), Normalized = D * InvStdDev;
// with Centre::zero (RMS) Normalized = X / sqrt(mean(X * X) + epsilon).
Standardized standardize_rows(const Tensor& x, std::int64_t rows, DType stash, double epsilon, Centre centre);

// normalized * scale + bias, each step rounded to `out`; both broadcast to normalized's shape. bias may be null.
Tensor scale_and_shift(const Tensor& normalized, const Tensor& scale, const Tensor* bias, DType out);

}  // namespace finity
