#include "fuzz/resampled.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/extra/image/resample.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

constexpr double kOfCoordinates = 0x1p-21;  // eight units in the last place of float32

// An output position on one axis: which elements it may be made of, with which weights; or of none, which is outside.
struct Position {
  std::map<std::int64_t, Range> weights = {};
  bool inside = false, outside = false;
};

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::isfinite(x) && x > 0 && std::frexp(x, &exponent) == 0.5;
}

// Whether all ways to compute coordinates come to the same numbers.
bool has_exact_coordinates(const AxisPlan& plan, const ResampleOptions& options) {
  if (plan.identity()) return true;
  if (options.coordinates == "tf_crop_and_resize") return false;
  if (options.coordinates == "align_corners")
    return plan.out <= 1 || plan.in <= 1 ||
           is_power_of_two(static_cast<double>(plan.in - 1) / static_cast<double>(plan.out - 1));
  return is_power_of_two(plan.scale);
}

void add_variants(const AxisPlan& plan, const ResampleOptions& options, std::vector<AxisPlan>& to) {
  to.push_back(plan);
  if (has_exact_coordinates(plan, options)) return;
  for (const double sign : {-1.0, 1.0}) {
    const auto moved = [&](float x) { return static_cast<float>(x * (1 + sign * kOfCoordinates)); };
    to.push_back(plan);
    to.back().scale = moved(plan.scale);
    to.back().length = moved(plan.length);
    if (options.coordinates != "tf_crop_and_resize") continue;
    to.back().roi_start = moved(plan.roi_start);
    to.back().roi_end = moved(plan.roi_end);
  }
}

std::vector<AxisPlan> variants(const AxisPlan& plan, const ResampleOptions& options, bool keeps_ratio) {
  std::vector<AxisPlan> result;
  add_variants(plan, options, result);
  if (!keeps_ratio || plan.in == 0) return result;
  // Where sizes were rounded, coordinates may go by the scale that was asked for or by the one that came out.
  AxisPlan made = plan;
  made.scale = static_cast<float>(plan.out) / static_cast<float>(plan.in);
  made.length = static_cast<float>(plan.out);
  add_variants(made, options, result);
  return result;
}

std::vector<Position> positions(const AxisPlan& plan, const ResampleOptions& options, bool keeps_ratio) {
  std::vector<Position> result(static_cast<std::size_t>(plan.out));
  std::vector<std::vector<std::map<std::int64_t, double>>> used(result.size());  // by position and variant
  for (const AxisPlan& variant : variants(plan, options, keeps_ratio)) {
    const AxisTaps taps = axis_taps(variant, options);
    for (std::size_t k = 0; k < result.size(); ++k) {
      (taps[k].empty() ? result[k].outside : result[k].inside) = true;
      if (taps[k].empty()) continue;
      used[k].emplace_back();
      for (const Tap& tap : taps[k]) {
        used[k].back()[tap.source] += tap.weight;
        result[k].weights.try_emplace(tap.source);
      }
    }
  }
  for (std::size_t k = 0; k < result.size(); ++k) {
    for (auto& [source, weight] : result[k].weights) {
      for (const auto& variant : used[k]) {
        const auto found = variant.find(source);
        weight = join(weight, point(found == variant.end() ? 0 : found->second));
      }
    }
  }
  return result;
}

struct Ends {
  double low = 0, high = 0, size = 0;  // size: sum of absolute products
};

Ends product(const Range& weight, const Ends& value) {
  const double ends[] = {weight.lo * value.low, weight.lo * value.high, weight.hi * value.low, weight.hi * value.high};
  return {.low = *std::ranges::min_element(ends),
          .high = *std::ranges::max_element(ends),
          .size = weight.magnitude() * value.size};
}

// One axis replaced by what may stand at its new positions.
std::vector<Ends> along(const std::vector<Ends>& from, const Dims& dims, std::size_t axis,
                        const std::vector<Position>& to, bool nearest) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  std::vector<Ends> result;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Position& position : to) {
      for (std::int64_t i = 0; i < inner; ++i) {
        Ends ends;
        bool first = true;
        for (const auto& [source, weight] : position.weights) {
          const Ends& value = from[static_cast<std::size_t>((o * dims[axis] + source) * inner + i)];
          const Ends term = nearest ? value : product(weight, value);
          if (nearest && !first) ends = {std::min(ends.low, term.low), std::max(ends.high, term.high), 0};
          else ends = {ends.low + term.low, ends.high + term.high, ends.size + term.size};
          first = false;
        }
        result.push_back(ends);
      }
    }
  }
  return result;
}

// How integers are rounded is not said; that they saturate is the sense of it.
Range stored(DType dtype, double low, double high, bool moved) {
  if (is_float(dtype)) return from_bounds(dtype, low, high);
  const double slack = moved ? 0 : 1;
  const double least = lowest_finite(dtype), most = max_finite(dtype);
  return from_bounds(dtype, std::clamp(std::floor(low - slack), least, most),
                     std::clamp(std::ceil(high + slack), least, most));
}

}  // namespace

std::optional<Box> enclose_resampled(const Graph& graph, const Node& node, const std::vector<Box>& operands) {
  const auto plan_of = resize_planner(*node.op);
  if (plan_of == nullptr) return std::nullopt;
  std::vector<Datum> given;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    given.emplace_back();
    if (!node.inputs[i].valid()) continue;
    if (i > 0 && !operands[i].is_point()) return std::nullopt;
    given.back() = i > 0 ? tensor_of(operands[i]) : Tensor(operands[0].dtype, operands[0].dims);
  }
  const DType dtype = operands[0].dtype;
  std::vector<Ends> values;
  for (const Range& cell : operands[0].cells) {
    if (!cell.is_finite()) return std::nullopt;
    values.push_back({cell.lo, cell.hi, cell.magnitude()});
  }
  try {
    Rng unused(0);
    const ResizePlan plan = plan_of(EvalCall(call_of(graph, node), given, unused));
    const bool nearest = plan.options.mode == "nearest";
    const Attr* policy = node.attrs.find("keep_aspect_ratio_policy");
    const bool keeps_ratio = policy != nullptr && std::get<std::string>(*policy) != "stretch";
    Dims dims = operands[0].dims;
    std::vector<std::vector<Position>> at;
    double taps = 1;
    for (std::size_t axis = 0; axis < plan.axes.size(); ++axis) {
      at.push_back(positions(plan.axes[axis], plan.options, keeps_ratio));
      if (plan.axes[axis].identity()) continue;
      values = along(values, dims, axis, at.back(), nearest);
      dims[axis] = plan.axes[axis].out;
      for (const Position& position : at.back()) taps = std::max(taps, static_cast<double>(position.weights.size()));
    }
    Box box{.dtype = dtype, .dims = dims};
    // Weights are polynomials of the coordinates that are themselves rounded.
    const double unit = std::max(unit_roundoff(dtype), unit_roundoff(DType::float32));
    const double part = nearest ? 0 : static_cast<double>(dims.size()) * (taps + 32) * unit;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = part * values[i].size;
      Range cell = stored(dtype, values[i].low - error, values[i].high + error, nearest);
      bool inside = true, outside = false;
      std::size_t rest = i;
      for (std::size_t axis = dims.size(); axis-- > 0;) {
        const Position& position = at[axis][rest % static_cast<std::size_t>(dims[axis])];
        rest /= static_cast<std::size_t>(dims[axis]);
        inside &= position.inside;
        outside |= position.outside;
      }
      const Range fill = stored(dtype, plan.extrapolation, plan.extrapolation, false);
      if (!inside) cell = fill;
      else if (outside) cell = join(cell, fill);
      box.cells.push_back(cell);
    }
    return box;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace finity::fuzz
