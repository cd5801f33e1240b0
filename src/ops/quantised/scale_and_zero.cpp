#include "ops/quantised/scale_and_zero.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

double quantize_number(DType dtype, double x, double zero_point, bool saturate) {
  if (is_int(dtype)) {
    const auto least = static_cast<double>(int_min(dtype));
    if (std::isnan(x)) return least;
    return std::clamp(std::nearbyint(x) + zero_point, least, static_cast<double>(int_max(dtype)));
  }
  const double shifted = zero_point == 0 ? x : x + zero_point;  // keeps -0
  const double limit = float_format(dtype).max_finite;
  return saturate && !std::isnan(shifted) ? std::clamp(shifted, -limit, limit) : shifted;
}

ScaleLayout::ScaleLayout(const Dims& x, const Dims& scale, std::int64_t axis, std::int64_t block_size) {
  const std::int64_t count = element_count(scale);
  const std::string shapes = "scale of shape " + to_string(scale) + " for a tensor of shape " + to_string(x);
  if (block_size < 0) throw Error("attribute 'block_size' is " + std::to_string(block_size));
  if (count == 1) {
    length_ = element_count(x);
    return;
  }
  const std::size_t at = normalize_axis(axis, x.size());
  const AxisView view(x, at);
  outer_ = view.outer;
  length_ = view.length;
  inner_ = view.inner;
  if (scale.size() == 1 && (block_size == 0 || x.size() != 1)) {
    per_axis_ = true;
    if (count != length_) throw Error(shapes + " does not have one element per index of axis " + std::to_string(at));
    return;
  }
  if (block_size == 0) throw Error(shapes + " needs attribute 'block_size'");
  Dims want = x;
  want[at] = x[at] / block_size + (x[at] % block_size != 0 ? 1 : 0);
  if (scale != want) throw Error(shapes + ", expected " + to_string(want));
  block_ = block_size;
  blocks_ = want[at];
}

float scalar_scale(const EvalCall& call, std::size_t input) {
  const Tensor& scale = call.in(input);
  if (scale.size() != 1) throw Error("a scale has shape " + to_string(scale.dims()) + ", expected one element");
  return static_cast<float>(element_as_double(scale, 0));
}

std::int64_t scalar_zero_point(const EvalCall& call, std::size_t input) {
  if (!call.has_input(input)) return 0;
  const Tensor& zero = call.in(input);
  if (zero.size() != 1) throw Error("a zero point has shape " + to_string(zero.dims()) + ", expected one element");
  return element_as_int(zero, 0);
}

DynamicQuantized dynamically_quantized(const std::vector<float>& x) {
  float least = 0, largest = 0;  // the range always includes 0
  for (const float value : x) {
    least = value < least || std::isnan(value) ? value : least;
    largest = value > largest || std::isnan(value) ? value : largest;
  }
  DynamicQuantized result;
  result.scale = largest == least ? 1.0F : (largest - least) / 255.0F;
  result.zero_point = quantize_number(DType::uint8, static_cast<double>(0.0F - least / result.scale), 0);
  for (const float value : x) {
    const auto divided = static_cast<double>(value / result.scale);
    result.values.push_back(quantize_number(DType::uint8, divided, result.zero_point));
  }
  return result;
}

}  // namespace finity
