// Resize and its predecessor Upsample.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ops/extra/image/interpolate_range.h"
#include "ops/extra/image/resample.h"
#include "ops/extra/image/resize_gradient.h"
#include "ops/extra/image/resize_plan.h"
#include "ops/shared/lengths.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- operands --------------------------------------------------------------

// Older exporters pass an empty tensor instead of leaving an operand out.
bool surely_empty(const InferCall& call, std::size_t i) {
  return !call.has_input(i) || (call.ranked(i) && product(call.shape(i)).size == 0);
}

void require_one(bool scales, bool sizes) {
  if (scales == sizes) throw Error(scales ? "both scales and sizes are given" : "neither scales nor sizes are given");
}

ResizeRequest requested(const EvalCall& call) {
  const std::size_t at = scales_input(call);
  const auto has = [&](std::size_t i) { return call.has_input(i) && !call.in(i).empty(); };
  // A scalar has no axis to give a scale or size for.
  if (call.in(0).rank() > 0) require_one(has(at), at == 2 && has(3));
  ResizeRequest request{.axes = resized_axes(call, call.in(0).rank()), .policy = call.text("keep_aspect_ratio_policy")};
  if (at == 2 && has(3)) request.sizes = entries_of(elements<std::int64_t>(call.in(3)));
  else if (has(at)) request.scales = elements<float>(call.in(at));
  else request.scales.emplace();
  return request;
}

void infer_resize(InferCall& call) {
  if (!call.ranked(0)) return;
  const std::size_t at = scales_input(call);
  ResizeRequest request{.axes = resized_axes(call, call.rank(0)), .policy = call.text("keep_aspect_ratio_policy")};
  if (surely_empty(call, at)) request.sizes = at == 2 && call.has_input(3) ? entries(call, {}, 3) : std::nullopt;
  else if (const Tensor* scales = call.value(at)) request.scales = elements<float>(*scales);
  if (request.scales || request.sizes) {
    call.set_shape(0, resized_shape(call.shape(0), request));
    return;
  }
  Shape result = call.shape(0);
  for (const std::size_t axis : request.axes) result[axis] = {};
  call.set_shape(0, std::move(result));
}

// ---- evaluation ------------------------------------------------------------

// Replaces one axis by weighted sums of its elements; positions without taps become zero.
template <class C>
std::vector<C> resampled(const std::vector<C>& from, const AxisView& view, const AxisTaps& taps) {
  std::vector<C> to(static_cast<std::size_t>(view.outer * view.inner) * taps.size());
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::size_t k = 0; k < taps.size(); ++k) {
      C* row = &to[(static_cast<std::size_t>(outer) * taps.size() + k) * static_cast<std::size_t>(view.inner)];
      for (const Tap& tap : taps[k]) {
        const C* source = &from[view.at(outer, tap.source, 0)];
        for (std::int64_t i = 0; i < view.inner; ++i) row[i] += source[i] * tap.weight;
      }
    }
  }
  return to;
}

bool has_gap(const AxisTaps& taps) {
  return std::ranges::any_of(taps, [](const auto& list) { return list.empty(); });
}

// Output positions that lie outside along this axis.
template <class C>
void extrapolate(std::vector<C>& values, const AxisView& view, const AxisTaps& taps, double value) {
  for (std::int64_t k = 0; k < view.length; ++k) {
    if (!taps[static_cast<std::size_t>(k)].empty()) continue;
    for (std::int64_t outer = 0; outer < view.outer; ++outer) {
      for (std::int64_t i = 0; i < view.inner; ++i) values[view.at(outer, k, i)] = value;
    }
  }
}

// Integers are rounded to the nearest and saturate; floats are rounded once.
template <class C>
Tensor stored_as(DType dtype, const Dims& dims, std::vector<C> values) {
  if constexpr (std::is_same_v<C, double>) {
    const auto low = static_cast<double>(is_int(dtype) ? int_min(dtype) : 0);
    // The largest int64 is not a double; the next one below is.
    const double high =
        dtype == DType::int64 ? 0x1.fffffffffffffp62 : static_cast<double>(is_int(dtype) ? int_max(dtype) : 0);
    for (std::size_t i = 0; i < values.size() && is_int(dtype); ++i) {
      values[i] = std::clamp(std::nearbyint(values[i]), low, high);
    }
  }
  return from_elements<C>(dtype, dims, values);
}

template <class C>
Tensor interpolated(const Tensor& in, const std::vector<AxisPlan>& plans, const ResampleOptions& options,
                    double extrapolation) {
  std::vector<C> values = elements<C>(in);
  Dims dims = in.dims();
  std::vector<AxisTaps> taps;
  for (std::size_t axis = 0; axis < plans.size(); ++axis) {
    taps.push_back(axis_taps(plans[axis], options));
    if (plans[axis].identity()) continue;
    const AxisView view(dims, axis);
    dims[axis] = plans[axis].out;
    require_computable(dims);
    values = element_count(dims) == 0 ? std::vector<C>() : resampled(values, view, taps.back());
  }
  for (std::size_t axis = 0; axis < plans.size() && !values.empty(); ++axis) {
    if (has_gap(taps[axis])) extrapolate(values, AxisView(dims, axis), taps[axis], extrapolation);
  }
  return stored_as<C>(in.dtype(), dims, std::move(values));
}

// Moves elements only, so that it works for every dtype.
Tensor nearest_neighbour(const Tensor& in, const std::vector<AxisPlan>& plans, const ResampleOptions& options,
                         double extrapolation) {
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  AxisOffsets offsets(plans.size());
  bool gaps = false;
  for (std::size_t axis = 0; axis < plans.size(); ++axis) {
    for (const auto& taps : axis_taps(plans[axis], options)) {
      gaps = gaps || taps.empty();
      offsets[axis].push_back(taps.empty() ? -1 : taps[0].source * strides[axis]);
    }
  }
  if (!gaps) return pick(in, offsets);
  const Tensor fill = from_elements<double>(in.dtype(), {}, std::vector{extrapolation});
  return pick(in, offsets, &fill);
}

Tensor resize(const Tensor& in, const std::vector<AxisPlan>& plans, const ResampleOptions& options,
              double extrapolation) {
  Dims dims;
  for (const AxisPlan& plan : plans) dims.push_back(plan.out);
  require_computable(dims);
  if (element_count(dims) == 0) return Tensor(in.dtype(), dims);
  if (options.mode == "nearest") return nearest_neighbour(in, plans, options, extrapolation);
  if (is_complex(in.dtype())) return interpolated<std::complex<double>>(in, plans, options, extrapolation);
  return interpolated<double>(in, plans, options, extrapolation);
}

void eval_resize(EvalCall& call) {
  const ResizePlan plan = plan_resize(call);
  call.out(0, resize(call.in(0), plan.axes, plan.options, plan.extrapolation));
}

// ---- Upsample --------------------------------------------------------------

void infer_upsample(InferCall& call) {
  if (!call.ranked(0)) return;
  auto scales = upsample_scales(call);
  if (const Tensor* value = call.value(1); !scales && value != nullptr) scales = elements<float>(*value);
  if (!scales) call.set_shape(0, unknown_shape(call.rank(0)));
  else call.set_shape(0, resized_shape(call.shape(0), upsample_request(call, call.rank(0), *scales)));
}

void eval_upsample(EvalCall& call) {
  const ResizePlan plan = plan_upsample(call);
  call.out(0, resize(call.in(0), plan.axes, plan.options, plan.extrapolation));
}

// ---- ranges ----------------------------------------------------------------

// The scales, where they are known; empty when sizes are given instead.
std::optional<std::vector<float>> known_scales(RangeCall& call) {
  const std::size_t at = scales_input(call);
  if (!call.has_range(at)) return std::vector<float>();
  const Tensor* value = call.value(at, 64);
  return value == nullptr ? std::nullopt : std::optional(elements<float>(*value));
}

// Axes that surely stay as they are: not named, scaled by exactly 1, or asked to have the size they have.
AxisSet untouched_axes(RangeCall& call) {
  const Shape& in = call.in_type(0).shape;
  const Shape& out = call.out_type(0).shape;
  const auto scales = known_scales(call);
  const bool stretch = call.text("keep_aspect_ratio_policy") == "stretch";
  AxisSet untouched(in.size(), true);
  const std::vector<std::size_t> axes = resized_axes(call, in.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = axes[i];
    const bool by_sizes = scales && scales->empty() && stretch;
    const bool same_size = out.size() == in.size() && surely_equal(in[axis], out[axis]);
    const bool scaled_by_one = scales && scales->size() == axes.size() && (*scales)[i] == 1;
    untouched[axis] = by_sizes ? same_size : scaled_by_one;
  }
  return untouched;
}

// The plan of every axis that is not left alone, where all of it is known.
std::optional<std::vector<AxisPlan>> known_plans(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const Dims out = sizes_of(call.out_type(0));
  const auto scales = known_scales(call);
  const bool stretch = call.text("keep_aspect_ratio_policy") == "stretch";
  if (!x.ranked || out.size() != x.rank() || !scales || (scales->empty() && !stretch)) return std::nullopt;
  std::vector<AxisPlan> plans;
  AxisSet untouched(x.rank(), false);
  if (call.in_type(0).shape.size() == x.rank()) untouched = untouched_axes(call);
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const bool unknown = x.sizes[i] <= 0 || out[i] < 0;
    if (unknown && !untouched[i]) return std::nullopt;
    const std::int64_t in = unknown ? 1 : x.sizes[i], to = unknown ? 1 : out[i];
    plans.push_back({.in = in, .out = to, .scale = 1, .length = static_cast<float>(to)});
  }
  const std::vector<std::size_t> axes = resized_axes(call, x.rank());
  if (!scales->empty() && scales->size() != axes.size()) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[axes[i]];
    plan.scale = scales->empty() ? static_cast<float>(plan.out) / static_cast<float>(plan.in) : (*scales)[i];
    if (!scales->empty()) plan.length = static_cast<float>(plan.in) * plan.scale;
  }
  return plans;
}

// Largest sum of negative weights on an axis.
std::optional<double> negative_weight(const std::vector<AxisPlan>& plans, const ResampleOptions& options) {
  constexpr std::int64_t kLongest = 1 << 13;
  double negative = 0;
  for (const AxisPlan& plan : plans) {
    if (plan.identity()) continue;
    if (plan.in > kLongest || plan.out > kLongest) return std::nullopt;
    for (const auto& taps : axis_taps(plan, options)) {
      double below = 0;
      for (const Tap& tap : taps) below += std::max(-tap.weight, 0.0);
      negative = std::max(negative, below);
    }
  }
  return negative * (1 + 1e-5);  // coordinates are not the same in every library
}

void range_resize(RangeCall& call) {
  const ResampleOptions options = resize_options(call);
  const bool crops = options.coordinates == "tf_crop_and_resize";
  Interpolation how{.moves_only = options.mode == "nearest"};
  if (crops) how.fill = call.real("extrapolation_value");
  const auto plans = crops ? std::nullopt : known_plans(call);
  if (call.in(0).ranked && call.in_type(0).shape.size() == call.in(0).rank() && !crops) {
    how.untouched = untouched_axes(call);
  }
  if (options.mode == "cubic") {
    how.taps = 4;
    how.negative = cubic_overshoot(options.cubic_coeff);
    // Weights outside are left out, stretched ones divided by their sum: only the weights themselves tell.
    const bool divided = options.exclude_outside || options.antialias;
    if (divided) how.negative = plans ? negative_weight(*plans, options) : std::nullopt;
  }
  if (options.antialias) {
    how.taps = plans ? 4 : 0x1p20;
    for (const AxisPlan& plan : plans.value_or(std::vector<AxisPlan>())) {
      how.taps = std::max(how.taps, static_cast<double>(plan.in));
    }
  }
  range_interpolated(call, how);
}

void range_upsample(RangeCall& call) { range_interpolated(call, {.moves_only = call.text("mode") == "nearest"}); }

// Weights of one axis that an element has in all results together, at most. Libraries may round a coordinate to another
// neighbour, which adds one.
double weight_along(const AxisPlan& plan, const ResampleOptions& options) {
  std::vector<double> sums(static_cast<std::size_t>(plan.in));
  for (const std::vector<Tap>& taps : axis_taps(plan, options)) {
    for (const Tap& tap : taps) sums[static_cast<std::size_t>(tap.source)] += std::abs(tap.weight);
  }
  return sums.empty() ? 0 : *std::ranges::max_element(sums) + 1;
}

// A weighted mean's square is at most the weighted mean of the squares.
Length length_resize(RangeCall& call, const Rows& rows) {
  const ResampleOptions options = resize_options(call);
  const bool means = (options.mode == "nearest" || options.mode == "linear") && !options.antialias;
  const AbsTensor& x = call.in(0);
  if (!means || options.coordinates == "tf_crop_and_resize" || !x.ranked || x.rank() > 31) return {};
  const auto plans = known_plans(call);
  if (!plans || plans->size() != x.rank()) return {};
  double weights = 1;
  for (std::size_t axis = 0; axis < plans->size(); ++axis) {
    const AxisPlan& plan = (*plans)[axis];
    if (plan.identity()) continue;
    if ((rows.axes >> axis & 1U) == 0 || plan.out > 1 << 16 || plan.in > 1 << 16) return {};
    weights *= weight_along(plan, options);
  }
  const DType dtype = call.out_dtype(0);
  return {.rows = with_error(call.length(0, without_scale(rows)) * std::sqrt(weights) * largest_factor(rows),
                             64 * unit_roundoff(dtype), 8 * min_subnormal(dtype) * largest_factor(rows),
                             count_along(call.out_type(0), rows.axes))};
}

constexpr std::string_view kFreedom =
    "coordinates in float32, sums in double rounded once; integers are rounded to the nearest and saturate; before "
    "opset 11 coordinates are asymmetric and nearest means down, or up where an axis shrinks";

// ---- drawing ---------------------------------------------------------------

void add_float32(DrawCall& call, const std::vector<double>& values) {
  call.add(from_elements<double>(DType::float32, {static_cast<std::int64_t>(values.size())}, values), 90);
}

// Where the part that is looked at begins and ends.
void draw_roi(DrawCall& call, std::size_t axes) {
  std::vector<double> roi;
  for (const double end : {0.0, 0.75}) {
    for (std::size_t i = 0; i < axes; ++i) roi.push_back(end + 0.125 * static_cast<double>(call.between(0, 2)));
  }
  add_float32(call, roi);
}

// Scales or sizes for all axes or for those that are named. Batch and channels mostly stay.
bool draw_resize(DrawCall& call) {
  if (call.opset() < 11) return false;
  DrawCall::Ints axes = call.integers("axes");
  if (call.attrs().find("axes") == nullptr) {
    for (std::int64_t axis = 0; axis < call.rank(); ++axis) axes.push_back(axis);
  }
  const bool by_sizes = call.chance(30);
  constexpr std::array kScales = {0.5, 1.0, 1.5, 2.0, 3.0, 0.75, 0.6, 4.0, 0.25, 0.5, 2.0};
  std::vector<double> scales;
  DrawCall::Ints sizes;
  for (const std::int64_t axis : axes) {
    const std::int64_t place = axis < 0 ? axis + call.rank() : axis, size = call.length(place);
    const bool stays = call.rank() > 2 && place < 2 && call.chance(85);
    scales.push_back(stays ? 1 : kScales[call.rng().below(kScales.size())]);
    sizes.push_back(stays || call.chance(20) ? size : call.chance(40) ? size * 2 : call.between(1, 9));
  }
  if (call.text("coordinate_transformation_mode") == "tf_crop_and_resize") draw_roi(call, axes.size());
  else call.leave_out();
  if (!by_sizes) {
    add_float32(call, scales);
  } else {
    call.leave_out();
    call.add_ints(sizes);
  }
  return true;
}

bool draw_upsample(DrawCall& call) {
  if (call.opset() < 9) return false;
  std::vector<double> scales;
  for (std::int64_t axis = 0; axis < call.rank(); ++axis)
    scales.push_back(call.rank() > 2 && axis < 2 ? 1 : static_cast<double>(call.between(1, 3)));
  add_float32(call, scales);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Resize",
                  .since = 10,
                  .summary = "another size by nearest, linear or cubic interpolation",
                  .signature = "(X: T, roi?: float, scales?: float32 since 11, sizes?: int64 since 11) -> (Y: T) where "
                               "T: any",
                  .attrs = "mode: string = nearest {nearest, linear, cubic}; coordinate_transformation_mode: string "
                           "= half_pixel {half_pixel, half_pixel_symmetric since 19, pytorch_half_pixel, "
                           "align_corners, asymmetric, tf_half_pixel_for_nn, tf_crop_and_resize} since 11; "
                           "nearest_mode: string = round_prefer_floor {round_prefer_floor, round_prefer_ceil, "
                           "floor, ceil} since 11; cubic_coeff_a: float = -0.75 since 11; exclude_outside: int = 0 "
                           "since 11; extrapolation_value: float = 0.0 since 11; antialias: int = 0 since 18; axes: "
                           "ints since 18; keep_aspect_ratio_policy: string = stretch {stretch, not_larger, "
                           "not_smaller} since 18"},
     .meaning = {.infer = infer_resize, .eval = eval_resize, .freedom = kFreedom},
     .analysis = {.range = range_resize, .length = length_resize, .vjp = resize_gradient},
     .drawing = {.operands = draw_resize, .ends = Ends::given, .often = 1, .settings = true}},
    {.identity = {.name = "Upsample",
                  .until = 9,
                  .summary = "a larger size by nearest or linear interpolation",
                  .signature = "(X: T, scales?: float32 since 9) -> (Y: T) where T: any",
                  .attrs =
                      "mode: string = nearest {nearest, linear, bilinear until 6}; scales: floats since 7 until 8; "
                      "height_scale: float until 6; width_scale: float until 6"},
     .meaning = {.infer = infer_upsample, .eval = eval_upsample, .freedom = kFreedom},
     .analysis = {.range = range_upsample, .vjp = upsample_gradient},
     .drawing = {.operands = draw_upsample, .first = FirstOperand::image, .settings = true}},
};

}  // namespace

ResizePlan plan_resize(const EvalCall& call) {
  const ResizeRequest request = requested(call);
  ResizePlan plan{plan_axes(call.in(0).dims(), request), resize_options(call), call.real("extrapolation_value")};
  if (plan.options.coordinates == "tf_crop_and_resize") {
    if (!call.has_input(1)) throw Error("tf_crop_and_resize needs roi");
    set_roi(elements<float>(call.in(1)), request.axes, plan.axes);
  }
  return plan;
}

ResizePlan plan_upsample(const EvalCall& call) {
  auto scales = upsample_scales(call);
  if (!scales) scales = elements<float>(call.in(1));
  const ResizeRequest request = upsample_request(call, call.in(0).rank(), *scales);
  return {plan_axes(call.in(0).dims(), request), upsample_options(call), 0};
}

ResizePlan (*resize_planner(const OpDef& op))(const EvalCall&) {
  if (op.meaning.eval == eval_resize) return plan_resize;
  return op.meaning.eval == eval_upsample ? plan_upsample : nullptr;
}

std::span<const OpDef> resize_ops() { return kOps; }

}  // namespace finity
