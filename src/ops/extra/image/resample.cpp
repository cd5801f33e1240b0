#include "ops/extra/image/resample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace finity {

namespace {

// The source coordinate of output index x.
float original(const AxisPlan& plan, const std::string& mode, float x) {
  const auto in = static_cast<float>(plan.in);
  const float half_pixel = (x + 0.5F) / plan.scale - 0.5F;
  if (mode == "half_pixel") return half_pixel;
  if (mode == "asymmetric") return x / plan.scale;
  if (mode == "pytorch_half_pixel") return plan.out > 1 ? half_pixel : 0.0F;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5F) / plan.scale;
  if (mode == "align_corners") return plan.length == 1.0F ? 0.0F : x * (in - 1) / (plan.length - 1);
  if (mode == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(plan.out) / plan.length;
    return in / 2 * (1 - adjustment) + half_pixel;
  }
  if (mode == "tf_crop_and_resize") {
    if (plan.length == 1.0F) return 0.5F * (plan.roi_start + plan.roi_end) * (in - 1);
    return plan.roi_start * (in - 1) + x * (plan.roi_end - plan.roi_start) * (in - 1) / (plan.length - 1);
  }
  throw Error("coordinate_transformation_mode '" + mode + "'");
}

// Halves go to the side that the mode prefers.
float nearest(float x, const std::string& rounding, float scale) {
  if (rounding == "round_prefer_floor") return std::ceil(x - 0.5F);
  if (rounding == "round_prefer_ceil") return std::floor(x + 0.5F);
  if (rounding == "floor") return std::floor(x);
  if (rounding == "ceil") return std::ceil(x);
  return scale < 1 ? std::ceil(x) : std::floor(x);
}

double cubic_filter(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

void normalize(std::vector<Tap>& taps) {
  double sum = 0;
  for (const Tap& tap : taps) sum += tap.weight;
  for (Tap& tap : taps) tap.weight = sum == 0 ? tap.weight : tap.weight / sum;
}

// The filter stretched by 1 / scale where antialiasing shrinks the axis; source indices may lie outside.
std::vector<Tap> filter_taps(double x, const AxisPlan& plan, const ResampleOptions& options) {
  const bool cubic = options.mode == "cubic";
  const double squeeze = options.antialias ? std::min(1.0, static_cast<double>(plan.scale)) : 1.0;
  const double base = std::floor(x);
  const double ratio = x - base;
  const auto first = static_cast<std::int64_t>(std::floor((cubic ? -2 : -1) / squeeze)) + 1;
  std::vector<Tap> taps;
  for (std::int64_t i = first; i < 2 - first; ++i) {
    const double distance = (static_cast<double>(i) - ratio) * squeeze;
    const double weight = cubic ? cubic_filter(distance, options.cubic_coeff) : std::max(0.0, 1 - std::abs(distance));
    taps.push_back({.source = static_cast<std::int64_t>(base) + i, .weight = weight});
  }
  if (options.antialias) normalize(taps);
  return taps;
}

// Beyond the border its element is repeated; taps of one element become one.
std::vector<Tap> inside(std::vector<Tap> taps, std::int64_t size, bool exclude_outside) {
  if (exclude_outside) {
    for (Tap& tap : taps) {
      if (tap.source < 0 || tap.source >= size) tap.weight = 0;
    }
    normalize(taps);
  }
  std::vector<Tap> result;
  for (const Tap& tap : taps) {
    const std::int64_t source = std::clamp<std::int64_t>(tap.source, 0, size - 1);
    if (!result.empty() && result.back().source == source) result.back().weight += tap.weight;
    else result.push_back({.source = source, .weight = tap.weight});
  }
  return result;
}

std::vector<Tap> taps_of(const AxisPlan& plan, const ResampleOptions& options, std::int64_t index) {
  const float x = original(plan, options.coordinates, static_cast<float>(index));
  const auto last = static_cast<float>(plan.in - 1);
  if (options.coordinates == "tf_crop_and_resize" && !(x >= 0 && x <= last)) return {};
  // Far outside every tap is the border anyway; this keeps indices small.
  const float near = std::clamp(x, -4.0F * static_cast<float>(plan.in) - 4, 5.0F * static_cast<float>(plan.in) + 4);
  if (options.mode == "nearest") {
    const float source = std::clamp(nearest(near, options.rounding, plan.scale), 0.0F, last);
    return {{.source = static_cast<std::int64_t>(source), .weight = 1}};
  }
  return inside(filter_taps(static_cast<double>(near), plan, options), plan.in, options.exclude_outside);
}

}  // namespace

std::array<double, 4> cubic_weights(double ratio, double coeff) {
  return {cubic_filter(1 + ratio, coeff), cubic_filter(ratio, coeff), cubic_filter(1 - ratio, coeff),
          cubic_filter(2 - ratio, coeff)};
}

AxisTaps axis_taps(const AxisPlan& plan, const ResampleOptions& options) {
  AxisTaps result;
  for (std::int64_t i = 0; i < plan.out; ++i) {
    if (plan.identity()) result.push_back({{.source = i, .weight = 1}});
    else if (plan.in == 0) throw Error("an empty axis cannot be resized to " + std::to_string(plan.out));
    else result.push_back(taps_of(plan, options, i));
  }
  return result;
}

}  // namespace finity
