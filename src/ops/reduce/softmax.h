// Softmax for the other families that contain one: losses, attention.
#pragma once

#include "ops/shared/shapes.h"
#include "tensor/tensor.h"

namespace finity {

// Each row of the view, shifted by its maximum: exp(x - max) / sum(exp(x - max)). Exponentials and their sum are held
// in float32 (float64 for float64); the quotient is rounded once. An infinite maximum gives NaN, as in any kernel.
Tensor softmax(const Tensor& x, const AxisView& view);
// (x - max) - log(sum(exp(x - max))), likewise.
Tensor log_softmax(const Tensor& x, const AxisView& view);

}  // namespace finity
