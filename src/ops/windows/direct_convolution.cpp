#include "ops/windows/direct_convolution.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

void check_channels(std::int64_t groups, const Dim& channels, const Shape& w) {
  std::int64_t wanted = 0;
  if (w[1].known() && __builtin_mul_overflow(w[1].size, groups, &wanted)) throw Error("too many channels");
  if (channels.known() && w[1].known() && channels.size != wanted) {
    throw Error("input X has " + std::to_string(channels.size) + " channels, the weights take " +
                std::to_string(wanted) + " in " + std::to_string(groups) + " groups");
  }
  if (w[0].known() && w[0].size % groups != 0) {
    throw Error(std::to_string(w[0].size) + " output channels are not divisible by " + std::to_string(groups) +
                " groups");
  }
}

void require_spatial(const Shape& x, const Shape& w) {
  if (x.size() < 3) throw Error("input X has rank " + std::to_string(x.size()) + ", expected at least 3");
  if (w.size() != x.size()) {
    throw Error("the weights have rank " + std::to_string(w.size()) + ", the input " + std::to_string(x.size()));
  }
}

}  // namespace

void check_bias(const InferCall& call, std::size_t bias, const Dim& channels) {
  if (!call.has_input(bias) || !call.ranked(bias)) return;
  require_rank(call, bias, 1);
  const Dim& count = call.shape(bias)[0];
  if (count.known() && channels.known() && count.size != channels.size) {
    throw Error("the bias has " + std::to_string(count.size) + " elements for " + std::to_string(channels.size) +
                " output channels");
  }
}

void infer_convolution(InferCall& call, std::size_t x_input, std::size_t w_input, std::optional<std::size_t> bias) {
  if (!call.ranked(x_input) && !call.ranked(w_input)) return;
  // They have the same rank, so one of them is enough to know it.
  const Shape x = call.ranked(x_input) ? call.shape(x_input) : unknown_shape_of(call.in(x_input), call.rank(w_input));
  const Shape w = call.ranked(w_input) ? call.shape(w_input) : unknown_shape_of(call.in(w_input), call.rank(x_input));
  require_spatial(x, w);
  check_channels(group_count(call), x[1], w);
  if (bias) check_bias(call, *bias, w[0]);
  const Window window = read_window(call, x.size() - 2, std::span(w).subspan(2));
  Shape out{x[0], w[0]};
  for (std::size_t i = 0; i < window.axes.size(); ++i)
    out.push_back(output_dim(window, i, x[i + 2], TooLarge::refused));
  call.set_shape(0, std::move(out));
}

ConvPlan plan_convolution(const Call& call, const Dims& x, const Dims& w) {
  const Shape x_shape = Type::tensor_of(DType::undefined, x).shape;
  const Shape w_shape = Type::tensor_of(DType::undefined, w).shape;
  require_spatial(x_shape, w_shape);
  const std::int64_t groups = group_count(call);
  check_channels(groups, x_shape[1], w_shape);
  const Window window = read_window(call, x.size() - 2, std::span(w_shape).subspan(2));
  return {.batch = x[0],
          .groups = groups,
          .in_channels = w[1],
          .out_channels = w[0] / groups,
          .axes = place(window, std::span(x).subspan(2))};
}

Dims ConvPlan::out_dims() const {
  Dims dims{batch, groups * out_channels};
  for (const PlacedAxis& axis : axes) dims.push_back(axis.output);
  return dims;
}

namespace {

bool passes_through(const PlacedAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.input == axis.output;
}

// Neighbouring axes that the window leaves alone are one longer axis: a 1x1 convolution works on whole planes.
std::vector<PlacedAxis> merged(std::span<const PlacedAxis> axes) {
  std::vector<PlacedAxis> result;
  for (const PlacedAxis& axis : axes) {
    const bool plain = passes_through(axis);
    if (plain && axis.input == 1 && !result.empty()) continue;
    if (plain && !result.empty() && passes_through(result.back())) {
      result.back().input *= axis.input;
      result.back().output *= axis.output;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// Everything about one kernel position that does not depend on the channels.
struct Tap {
  std::vector<std::int64_t> index = {};
  std::vector<OutputRange> ranges = {};  // per axis
};

std::vector<Tap> list_taps(std::span<const PlacedAxis> axes) {
  Dims kernel;
  for (const PlacedAxis& axis : axes) kernel.push_back(axis.kernel);
  std::vector<Tap> taps;
  for (IndexCounter at(kernel); at.valid(); at.next()) {
    Tap tap{at.index(), {}};
    for (std::size_t i = 0; i < axes.size(); ++i) tap.ranges.push_back(outputs_of_tap(axes[i], tap.index[i]));
    taps.push_back(std::move(tap));
  }
  return taps;
}

// out[o] += weight * in[o * stride - pad + tap * dilation] over all axes from `depth` on.
template <class A>
void add_tap(std::span<const PlacedAxis> axes, const Tap& tap, std::size_t depth, A* out, const A* in, A weight) {
  const PlacedAxis& axis = axes[depth];
  const auto [begin, end] = tap.ranges[depth];
  const std::int64_t start = begin * axis.stride - axis.pad_begin + tap.index[depth] * axis.dilation;
  if (depth + 1 == axes.size()) {
    if (axis.stride == 1) add_scaled(out + begin, in + start, weight, end - begin);
    else add_scaled(out + begin, 1, in + start, axis.stride, weight, end - begin);
    return;
  }
  const std::int64_t out_step = output_count(axes.subspan(depth + 1));
  const std::int64_t in_step = input_count(axes.subspan(depth + 1));
  for (std::int64_t o = begin; o < end; ++o) {
    const std::int64_t i = start + (o - begin) * axis.stride;
    add_tap(axes, tap, depth + 1, out + o * out_step, in + i * in_step, weight);
  }
}

}  // namespace

template <class A>
std::vector<A> convolve(const ConvPlan& plan, std::span<const A> x, std::span<const A> w) {
  std::vector<A> out(result_count(plan.out_dims()));
  const std::vector<PlacedAxis> axes = merged(plan.axes);
  const std::vector<Tap> taps = list_taps(axes);
  const std::int64_t in_plane = input_count(axes), out_plane = output_count(axes);
  if (out_plane == 0) return out;
  for (std::int64_t n = 0; n < plan.batch; ++n) {
    for (std::int64_t m = 0; m < plan.groups * plan.out_channels; ++m) {
      const std::int64_t first_channel = (n * plan.groups + m / plan.out_channels) * plan.in_channels;
      A* to = out.data() + (n * plan.groups * plan.out_channels + m) * out_plane;
      const A* weight = w.data() + m * plan.in_channels * static_cast<std::int64_t>(taps.size());
      for (std::int64_t c = 0; c < plan.in_channels; ++c) {
        const A* from = x.data() + (first_channel + c) * in_plane;
        for (const Tap& tap : taps) add_tap(std::span<const PlacedAxis>(axes), tap, 0, to, from, *weight++);
      }
    }
  }
  return out;
}

template <class A>
void add_bias(const ConvPlan& plan, std::vector<A>& values, std::span<const A> bias) {
  const std::int64_t channels = plan.groups * plan.out_channels;
  if (static_cast<std::int64_t>(bias.size()) != channels) {
    throw Error("the bias has " + std::to_string(bias.size()) + " elements for " + std::to_string(channels) +
                " output channels");
  }
  const auto plane = static_cast<std::size_t>(output_count(plan.axes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += bias[i / plane % bias.size()];
}

template std::vector<float> convolve(const ConvPlan&, std::span<const float>, std::span<const float>);
template std::vector<double> convolve(const ConvPlan&, std::span<const double>, std::span<const double>);
template std::vector<std::uint32_t> convolve(const ConvPlan&, std::span<const std::uint32_t>,
                                             std::span<const std::uint32_t>);
template void add_bias(const ConvPlan&, std::vector<float>&, std::span<const float>);
template void add_bias(const ConvPlan&, std::vector<double>&, std::span<const double>);
template void add_bias(const ConvPlan&, std::vector<std::uint32_t>&, std::span<const std::uint32_t>);

}  // namespace finity
