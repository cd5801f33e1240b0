// Linear quantization: y = saturate(round(x / scale) + zero_point), and back
// (y - zero_point) * scale. Rounding is to nearest, ties to even, before the zero
// point is added. Scales and zero points hold for the whole tensor, for one index
// of an axis, or for a block along an axis.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/table/call.h"
#include "tensor/tensor.h"

namespace finity {

// x already divided by the scale. Integers saturate and NaN becomes the smallest one; floats below 16 bits are left to
// be rounded by the conversion, saturated first where asked to.
double quantize_number(DType dtype, double x, double zero_point, bool saturate = true);

// Which scale belongs to which element of x: f(element, scale) for all elements in order.
class ScaleLayout {
 public:
  // Throws Error when the scale's shape fits none of the three kinds.
  ScaleLayout(const Dims& x, const Dims& scale, std::int64_t axis, std::int64_t block_size);

  template <class F>
  void for_each(F f) const {
    std::size_t element = 0;
    for (std::int64_t outer = 0; outer < outer_; ++outer) {
      for (std::int64_t k = 0; k < length_; ++k) {
        for (std::int64_t inner = 0; inner < inner_; ++inner) f(element++, scale_of(outer, k, inner));
      }
    }
  }

 private:
  std::size_t scale_of(std::int64_t outer, std::int64_t k, std::int64_t inner) const {
    if (block_ == 0) return static_cast<std::size_t>(per_axis_ ? k : 0);
    return static_cast<std::size_t>((outer * blocks_ + k / block_) * inner_ + inner);
  }

  std::int64_t outer_ = 1, length_ = 1, inner_ = 1;
  std::int64_t block_ = 0, blocks_ = 0;  // 0: not blocked
  bool per_axis_ = false;
};

// A quantized operand with parameters for the whole tensor (or, for weights, one each per output channel).
float scalar_scale(const EvalCall& call, std::size_t input);
// 0 when the input is omitted.
std::int64_t scalar_zero_point(const EvalCall& call, std::size_t input);

// To uint8, with the scale and zero point that fit the data; computed in float32. The scale of all zeros is 1.
struct DynamicQuantized {
  std::vector<double> values = {};
  float scale = 1;
  double zero_point = 0;
};
DynamicQuantized dynamically_quantized(const std::vector<float>& x);

}  // namespace finity
