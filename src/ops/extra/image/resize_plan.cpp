#include "ops/extra/image/resize_plan.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

Dim scaled(const Dim& dim, float scale) {
  if (!(scale > 0) || scale > 0x1p40F) throw Error("scale " + std::to_string(scale));
  if (scale == 1) return dim;
  if (!dim.known()) {
    const auto bound = [&](std::int64_t size) {
      return static_cast<std::int64_t>(std::floor(std::min(static_cast<float>(size) * scale, 0x1p60F)));
    };
    return Dim::between(bound(dim.least_size()), bound(dim.most_size()));
  }
  // In float, like every implementation: 10 * 0.7f is 7 there but 6.99.. in double.
  const float size = std::floor(static_cast<float>(dim.size) * scale);
  if (size > 0x1p40F) throw Error("the result is too large");
  return Dim::of(static_cast<std::int64_t>(size));
}

// One scale for all axes, so that the shape keeps its proportions within (or around) the requested sizes.
std::optional<double> common_scale(const Shape& in, const ResizeRequest& request) {
  std::optional<double> result;
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    const Dim &have = in[request.axes[i]], &want = (*request.sizes)[i].dim;
    if (!have.known() || !want.known()) return std::nullopt;
    if (have.size == 0) throw Error("an empty axis cannot be resized");
    const double scale = static_cast<double>(want.size) / static_cast<double>(have.size);
    if (!result) result = scale;
    else result = request.policy == "not_larger" ? std::min(*result, scale) : std::max(*result, scale);
  }
  return result;
}

Dim rounded(double size) {
  if (!(size < 0x1p40)) throw Error("the result is too large");
  return Dim::of(static_cast<std::int64_t>(std::floor(size + 0.5)));
}

}  // namespace

std::size_t scales_input(const Call& call) { return call.version() >= 11 ? 2 : 1; }

Shape resized_shape(const Shape& in, const ResizeRequest& request) {
  const std::size_t count = request.scales ? request.scales->size() : request.sizes->size();
  if (count != request.axes.size()) {
    throw Error(std::to_string(count) + " scales or sizes for " + std::to_string(request.axes.size()) + " axes");
  }
  Shape result = in;
  const bool stretch = request.policy == "stretch" || request.scales;
  const std::optional<double> common = stretch ? std::nullopt : common_scale(in, request);
  for (std::size_t i = 0; i < count; ++i) {
    Dim& dim = result[request.axes[i]];
    if (request.scales) {
      dim = scaled(dim, (*request.scales)[i]);
      continue;
    }
    const Entry& size = (*request.sizes)[i];
    if (size.number && *size.number < 0) throw Error("negative size");
    if (stretch) dim = size.dim;
    else dim = common ? rounded(*common * static_cast<double>(dim.size)) : Dim{};
  }
  return result;
}

std::vector<std::size_t> resized_axes(const Call& call, std::size_t rank) {
  if (call.has_attr("axes")) return normalize_axes(call.integers("axes"), rank);
  std::vector<std::size_t> all(rank);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::vector<AxisPlan> plan_axes(const Dims& in, const ResizeRequest& request) {
  Shape shape;
  for (const std::int64_t size : in) shape.push_back(Dim::of(size));
  const Dims out = sizes_of(resized_shape(shape, request));
  std::vector<AxisPlan> plans;
  for (std::size_t i = 0; i < in.size(); ++i) {
    plans.push_back({.in = in[i], .out = out[i], .scale = 1, .length = static_cast<float>(out[i])});
  }
  const bool keeps_ratio = request.sizes && request.policy != "stretch";
  const double common = keeps_ratio ? common_scale(shape, request).value_or(1.0) : 1.0;
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    AxisPlan& plan = plans[request.axes[i]];
    if (request.scales) plan.scale = (*request.scales)[i];
    else if (keeps_ratio) plan.scale = static_cast<float>(common);
    else if (plan.in > 0) plan.scale = static_cast<float>(plan.out) / static_cast<float>(plan.in);
    if (request.scales || keeps_ratio) plan.length = static_cast<float>(plan.in) * plan.scale;
  }
  return plans;
}

void set_roi(const std::vector<float>& roi, const std::vector<std::size_t>& axes, std::vector<AxisPlan>& plans) {
  if (roi.size() != 2 * axes.size()) {
    throw Error("roi has " + std::to_string(roi.size()) + " elements for " + std::to_string(axes.size()) + " axes");
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    plans[axes[i]].roi_start = roi[i];
    plans[axes[i]].roi_end = roi[axes.size() + i];
  }
}

ResampleOptions resize_options(const Call& call) {
  ResampleOptions options;
  options.mode = call.text("mode");
  if (call.version() < 11) {
    options.coordinates = "asymmetric";
    return options;
  }
  options.coordinates = call.text("coordinate_transformation_mode");
  options.rounding = call.text("nearest_mode");
  options.cubic_coeff = call.real("cubic_coeff_a");
  options.exclude_outside = call.integer("exclude_outside") != 0;
  options.antialias = call.integer("antialias") != 0 && options.mode != "nearest";
  return options;
}

std::optional<std::vector<float>> upsample_scales(const Call& call) {
  if (call.has_attr("height_scale")) {
    return std::vector{1.0F, 1.0F, static_cast<float>(call.real("height_scale")),
                       static_cast<float>(call.real("width_scale"))};
  }
  if (!call.has_attr("scales")) return std::nullopt;
  const std::vector<double> scales = call.reals("scales");
  return std::vector<float>(scales.begin(), scales.end());
}

ResizeRequest upsample_request(const Call& call, std::size_t rank, std::vector<float> scales) {
  return {.axes = resized_axes(call, rank), .scales = std::move(scales)};
}

ResampleOptions upsample_options(const Call& call) {
  ResampleOptions options;
  options.mode = call.text("mode") == "bilinear" ? "linear" : call.text("mode");
  options.coordinates = "asymmetric";
  return options;
}

}  // namespace finity
