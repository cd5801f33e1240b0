// DeformConv: every tap of every window is moved by an offset of its own, read
// by linear interpolation and multiplied by a mask. The samples are laid out as
// one row per (channel, tap) and one column per output, and the weights are then
// applied by a matrix product.
#include <cmath>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/linear/matmul.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/windows/conv_range.h"
#include "ops/windows/deform_conv_gradient.h"
#include "ops/windows/direct_convolution.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void infer_deform_conv(InferCall& call) { infer_convolution(call, 0, 1, 3); }

// Up to 2^n neighbours of a fractional position with their weights; those outside the input are left out.
struct Corner {
  std::int64_t position = 0;
  double weight = 1;
};

void find_corners(std::span<const PlacedAxis> axes, std::span<const double> point, std::vector<Corner>& corners) {
  corners.assign(1, Corner{});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<Corner> next;
    const double size = static_cast<double>(axes[i].input);
    const bool reaches = std::isnan(point[i]) || (point[i] > -1 && point[i] < size);
    const double low = std::isnan(point[i]) ? 0 : std::floor(point[i]);
    for (int side = 0; side < 2 && reaches; ++side) {
      const double at = low + side;
      if (at < 0 || at >= size) continue;
      const double share = side == 0 ? 1 - (point[i] - low) : point[i] - low;
      for (const Corner& corner : corners) {
        next.push_back({corner.position * axes[i].input + static_cast<std::int64_t>(at), corner.weight * share});
      }
    }
    corners = std::move(next);
  }
}

struct DeformPlan {
  ConvPlan conv = {};
  std::int64_t channels = 1;
  std::int64_t offset_groups = 1;
  std::int64_t taps = 1;
  std::int64_t outputs = 1;  // per image and channel
  std::int64_t inputs = 1;
};

DeformPlan plan_deform_conv(const EvalCall& call) {
  const Dims& x = call.in(0).dims();
  DeformPlan plan{.conv = plan_convolution(call, x, call.in(1).dims()), .channels = x[1]};
  plan.offset_groups = call.integer("offset_group");
  if (plan.offset_groups < 1 || plan.channels % plan.offset_groups != 0) {
    throw Error("attribute 'offset_group' is " + std::to_string(plan.offset_groups) + " for " +
                std::to_string(plan.channels) + " channels");
  }
  plan.taps = kernel_count(plan.conv.axes);
  plan.outputs = output_count(plan.conv.axes);
  plan.inputs = input_count(plan.conv.axes);
  const auto check = [&](std::size_t input, std::string_view name, std::int64_t per_tap) {
    Dims want = plan.conv.out_dims();
    want[1] = plan.offset_groups * plan.taps * per_tap;
    if (call.in(input).dims() != want) {
      throw Error("input " + std::string(name) + " has shape " + to_string(call.in(input).dims()) + ", expected " +
                  to_string(want));
    }
  };
  check(2, "offset", static_cast<std::int64_t>(plan.conv.axes.size()));
  if (call.has_input(4)) check(4, "mask", 1);
  return plan;
}

// Where the tap of each output falls, moved by the offsets, which are [image, group, tap, axis, output].
void move_point(const DeformPlan& plan, std::span<const double> offsets, std::int64_t first,
                std::span<const std::int64_t> output, std::span<const std::int64_t> tap, std::int64_t column,
                std::vector<double>& point) {
  for (std::size_t i = 0; i < point.size(); ++i) {
    const PlacedAxis& axis = plan.conv.axes[i];
    const std::int64_t base = output[i] * axis.stride - axis.pad_begin + tap[i] * axis.dilation;
    const std::int64_t at = (first + static_cast<std::int64_t>(i)) * plan.outputs + column;
    point[i] = static_cast<double>(base) + offsets[static_cast<std::size_t>(at)];
  }
}

template <class A>
struct Samples {
  std::vector<A> x = {};
  std::vector<double> offsets = {};
  std::vector<double> mask = {};  // empty: all ones
};

double sample_at(std::span<const Corner> corners, const auto* plane) {
  double value = 0;
  for (const Corner& corner : corners) value += corner.weight * static_cast<double>(plane[corner.position]);
  return value;
}

// One row per tap for the channels of one offset group of one image: rows[channel, tap, output].
template <class A>
void sample_tap(const DeformPlan& plan, const Samples<A>& data, std::int64_t image, std::int64_t group,
                std::span<const std::int64_t> tap, std::int64_t tap_number, std::vector<A>& rows) {
  Dims out = plan.conv.out_dims();
  out.erase(out.begin(), out.begin() + 2);
  const std::int64_t per_group = plan.channels / plan.offset_groups;
  const std::int64_t parameter = (image * plan.offset_groups + group) * plan.taps + tap_number;
  std::vector<double> point(tap.size());
  std::vector<Corner> corners;
  std::int64_t column = 0;
  for (IndexCounter at(out); at.valid(); at.next(), ++column) {
    move_point(plan, data.offsets, parameter * static_cast<std::int64_t>(tap.size()), at.index(), tap, column, point);
    find_corners(plan.conv.axes, point, corners);
    const double mask = data.mask.empty() ? 1 : data.mask[static_cast<std::size_t>(parameter * plan.outputs + column)];
    for (std::int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
      const A* plane = data.x.data() + (image * plan.channels + c) * plan.inputs;
      const std::int64_t row = c * plan.taps + tap_number;
      rows[static_cast<std::size_t>(row * plan.outputs + column)] = static_cast<A>(sample_at(corners, plane) * mask);
    }
  }
}

template <class A>
void convolve_image(const DeformPlan& plan, const Samples<A>& data, std::span<const A> weights, std::int64_t image,
                    std::vector<A>& rows, A* out) {
  Dims kernel;
  for (const PlacedAxis& axis : plan.conv.axes) kernel.push_back(axis.kernel);
  for (std::int64_t group = 0; group < plan.offset_groups; ++group) {
    std::int64_t number = 0;
    for (IndexCounter tap(kernel); tap.valid(); tap.next()) {
      sample_tap(plan, data, image, group, tap.index(), number++, rows);
    }
  }
  const std::int64_t depth = plan.conv.in_channels * plan.taps;
  for (std::int64_t group = 0; group < plan.conv.groups; ++group) {
    add_product(out + group * plan.conv.out_channels * plan.outputs,
                weights.data() + group * plan.conv.out_channels * depth, rows.data() + group * depth * plan.outputs,
                plan.conv.out_channels, depth, plan.outputs);
  }
}

template <class A>
Tensor deform_conv(const EvalCall& call, const DeformPlan& plan) {
  Samples<A> data{elements<A>(call.in(0)), elements<double>(call.in(2)), {}};
  if (call.has_input(4)) data.mask = elements<double>(call.in(4));
  const std::vector<A> weights = elements<A>(call.in(1));
  std::vector<A> out(result_count(plan.conv.out_dims()));
  std::vector<A> rows(result_count(Dims{plan.channels, plan.taps, plan.outputs}));
  const std::int64_t image_size = plan.conv.groups * plan.conv.out_channels * plan.outputs;
  for (std::int64_t image = 0; image < plan.conv.batch; ++image) {
    convolve_image<A>(plan, data, weights, image, rows, out.data() + image * image_size);
  }
  if (call.has_input(3)) add_bias<A>(plan.conv, out, elements<A>(call.in(3)));
  return from_elements<A>(call.in(0).dtype(), plan.conv.out_dims(), out);
}

void eval_deform_conv(EvalCall& call) {
  const DeformPlan plan = plan_deform_conv(call);
  call.out(0, with_float_sum_type(call.in(0).dtype(), [&]<class A>() { return deform_conv<A>(call, plan); }));
}

const OpDef kOps[] = {
    {.identity =
         {.name = "DeformConv",
          .since = 19,
          .summary = "convolution whose taps are moved by given offsets and scaled by a mask",
          .signature = "(X: T, W: T, offset: T, B?: T, mask?: T) -> (Y: T) where T: float",
          .attrs =
              "dilations: ints; group: int = 1; kernel_shape: ints; offset_group: int = 1; pads: ints; strides: ints"},
     .meaning =
         {.infer = infer_deform_conv,
          .eval = eval_deform_conv,
          .freedom =
              "samples are interpolated in float64; products are added by channel, then by kernel position, then the "
              "bias, in float32 (float64 for float64)"},
     .analysis = {.range = range_deform_conv, .vjp = deform_conv_gradient, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> deform_conv_ops() { return kOps; }

}  // namespace finity
