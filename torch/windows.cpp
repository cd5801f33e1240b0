// Convolutions and pools. Where the taps of a window fall is computed by ops/window.h, as for the reference; LibTorch
// gets the operand with its margins, or pads itself where a convolution's margins are the same on both sides.
#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/windows/pool_windows.h"
#include "ops/windows/window.h"
#include "torch/lowering.h"

namespace finity {

namespace {

using Axes = std::vector<PlacedAxis>;
using Numbers = std::vector<std::int64_t>;

template <class F>
Numbers of_axes(const Axes& axes, F f) {
  Numbers result;
  for (const PlacedAxis& axis : axes) result.push_back(f(axis));
  return result;
}
Numbers kernels(const Axes& axes) {
  return of_axes(axes, [](const PlacedAxis& axis) { return axis.kernel; });
}
Numbers strides(const Axes& axes) {
  return of_axes(axes, [](const PlacedAxis& axis) { return axis.stride; });
}
Numbers dilations(const Axes& axes) {
  return of_axes(axes, [](const PlacedAxis& axis) { return axis.dilation; });
}

void require_spatial(std::size_t rank) {
  if (rank < 1 || rank > 3) throw Unsupported("LibTorch has windows over 1 to 3 axes, not " + std::to_string(rank));
}

// Margins so that every window lies inside, with as much behind as the last window needs.
at::Tensor with_margins(const at::Tensor& x, const Axes& axes, double fill) {
  Numbers margins;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::int64_t reach = (axis->output - 1) * axis->stride + axis->extent();
    margins.push_back(axis->pad_begin);
    margins.push_back(std::max<std::int64_t>(0, reach - axis->input - axis->pad_begin));
  }
  if (std::ranges::all_of(margins, [](std::int64_t margin) { return margin == 0; })) return x;
  return at::constant_pad_nd(x, margins, fill);
}

// Windows far larger than the operand: LibTorch would be handed gigabytes of margins.
bool mostly_margins(const at::Tensor& x, const Axes& axes) {
  double all = 1, own = 1;
  for (const PlacedAxis& axis : axes) {
    all *= static_cast<double>((axis.output - 1) * axis.stride + axis.extent());
    own *= static_cast<double>(axis.input);
  }
  return all > 1e6 && all > 64 * own && x.numel() > 0;
}

Axes placed(const TorchCall& call, const at::Tensor& x, const at::Tensor* w) {
  const Dims sizes = x.sizes().vec();
  require_spatial(sizes.size() < 2 ? 0 : sizes.size() - 2);
  Shape kernel;
  if (w != nullptr) kernel = Type::tensor_of(DType::undefined, w->sizes().vec()).shape;
  const std::span<const Dim> weights = w == nullptr ? std::span<const Dim>() : std::span<const Dim>(kernel).subspan(2);
  return place(read_window(call, sizes.size() - 2, weights), std::span(sizes).subspan(2));
}

// Whether LibTorch's own padding, the same on both sides, gives these windows.
bool pads_alike(const PlacedAxis& axis) {
  const std::int64_t room = axis.input + 2 * axis.pad_begin - axis.extent();
  return axis.pad_begin >= 0 && room >= 0 && room / axis.stride + 1 == axis.output;
}

// As its users call it: rewrites of TorchScript look for these names.
at::Tensor convolved(const TorchCall& call, const at::Tensor& x, const at::Tensor& w,
                     const c10::optional<at::Tensor>& b) {
  if (x.dim() != w.dim()) throw Error("inputs X and W differ in rank");
  const Axes axes = placed(call, x, &w);
  const bool alike = std::ranges::all_of(axes, pads_alike);
  const at::Tensor operand = alike ? x : with_margins(x, axes, 0);
  const Numbers padding =
      alike ? of_axes(axes, [](const PlacedAxis& axis) { return axis.pad_begin; }) : Numbers(axes.size(), 0);
  const std::int64_t group = call.integer("group");
  if (axes.size() == 1) return at::conv1d(operand, w, b, strides(axes), padding, dilations(axes), group);
  if (axes.size() == 2) return at::conv2d(operand, w, b, strides(axes), padding, dilations(axes), group);
  return at::conv3d(operand, w, b, strides(axes), padding, dilations(axes), group);
}

c10::optional<at::Tensor> bias_of(const TorchCall& call, std::size_t i) {
  return call.has(i) ? c10::optional<at::Tensor>(call.in(i)) : c10::nullopt;
}

void lower_conv(TorchCall& call) { call.out(0, convolved(call, call.in(0), call.in(1), bias_of(call, 2))); }

// Exact: sums of products of 8-bit integers are below 2^53 for every size that can be run.
void lower_conv_integer(TorchCall& call) {
  at::Tensor x = call.in(0).to(at::kDouble);
  at::Tensor w = call.in(1).to(at::kDouble);
  if (call.has(2)) x = at::sub(x, call.in(2).to(at::kDouble).reshape({}));
  if (call.has(3)) {
    at::Tensor zero = call.in(3).to(at::kDouble);
    Dims dims(static_cast<std::size_t>(w.dim()), 1);
    dims[0] = zero.numel();
    w = at::sub(w, zero.reshape(dims));
  }
  call.out(0, convolved(call, x, w, c10::nullopt).to(at::kLong));
}

// The causal one: a convolution of the past and the input, channel by channel.
void lower_causal_conv(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const at::Tensor& w = call.in(1);
  const std::int64_t past = w.size(2) - 1;
  const Dims state{x.size(0), x.size(1), past};
  if (call.has(3) && call.in(3).sizes() != at::IntArrayRef(state)) throw Error("past_state does not fit the operands");
  const at::Tensor before = call.has(3) ? call.in(3) : at::zeros(state, x.options());
  const at::Tensor joined = at::cat({before, x}, 2);
  at::Tensor y = at::convolution(joined, w, bias_of(call, 2), {1}, {0}, {1}, false, {0}, x.size(1));
  if (call.text("activation") != "none") y = swish(settled(y, call.out_dtype(0)).to(y.scalar_type()), 1.0);
  call.out(0, y);
  call.out(1, joined.narrow(2, joined.size(2) - past, past));
}

// How much of the full result is cut off in front, and how long the result is.
struct Cut {
  std::int64_t begin = 0, size = 0;
};

Cut cut_of(const TorchCall& call, const Window& window, std::size_t i, std::int64_t in, std::int64_t out) {
  const WindowAxis& axis = window.axes[i];
  const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
  if (call.integers("output_shape").empty() && !same) return {axis.pad_begin, out};
  const Numbers padding = call.integers("output_padding");
  const std::int64_t full = axis.stride * (in - 1) + axis.extent() + (padding.empty() ? 0 : padding[i]);
  const std::int64_t total = std::max<std::int64_t>(full - out, 0);
  return {window.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2, out};
}

void lower_conv_transpose(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const at::Tensor& w = call.in(1);
  const auto rank = static_cast<std::size_t>(x.dim()) - 2;
  require_spatial(rank);
  const Dims out = call.inferred_dims().front();
  const Shape kernel = Type::tensor_of(DType::undefined, w.sizes().vec()).shape;
  const Window window = read_window(call, rank, std::span(kernel).subspan(2));
  Numbers steps, spread, zeros(rank, 0);
  for (const WindowAxis& axis : window.axes) {
    steps.push_back(axis.stride);
    spread.push_back(axis.dilation);
  }
  at::Tensor y = at::convolution(x, w, c10::nullopt, steps, zeros, spread, true, zeros, call.integer("group"));
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const Cut cut = cut_of(call, window, i, x.size(axis), out.at(i + 2));
    Numbers margins(2 * rank, 0);  // of the last axis first
    margins[2 * (rank - 1 - i)] = -cut.begin;
    margins[2 * (rank - 1 - i) + 1] = cut.begin + cut.size - y.size(axis);
    y = at::constant_pad_nd(y, margins, 0);
  }
  Dims channels(static_cast<std::size_t>(x.dim()), 1);
  channels[1] = -1;
  call.out(0, call.has(2) ? at::add(y, call.in(2).reshape(channels)) : y);
}

// ---- pools ------------------------------------------------------------------------

at::Tensor max_pool(const at::Tensor& x, const Axes& axes) {
  const at::Tensor wide = with_margins(x, axes, -std::numeric_limits<double>::infinity());
  const Numbers size = kernels(axes), step = strides(axes), spread = dilations(axes), none(axes.size(), 0);
  if (axes.size() == 3) return at::max_pool3d(wide, size, step, none, spread);
  if (axes.size() == 2) return at::max_pool2d(wide, size, step, none, spread);
  return at::max_pool2d(wide.unsqueeze(2), {1, size[0]}, {1, step[0]}, {0, 0}, {1, spread[0]}).squeeze(2);
}

// Which element it was is asked of the reference, since LibTorch counts through the margins.
void lower_max_pool(TorchCall& call) {
  const at::Tensor x = is_integral(call.in(0)) ? call.in(0).to(at::kFloat) : call.in(0);
  const Axes axes = placed(call, x, nullptr);
  if (mostly_margins(x, axes)) return lower_by_reference(call);
  at::Tensor y = max_pool(x, axes);
  if (is_integral(call.in(0))) y = at::clamp_min(y, static_cast<double>(int_min(call.dtype(0))));
  call.out(0, y);
  if (call.has_output(1)) call.put(1, to_value(call.reference().at(1)));
}

// A convolution of every plane with ones; margins are zeros.
at::Tensor window_sums(const at::Tensor& x, const Axes& axes) {
  const at::Tensor wide = with_margins(x, axes, 0);
  const Numbers none(axes.size(), 0);
  Dims planes = wide.sizes().vec();
  planes[0] *= planes[1];
  planes[1] = 1;
  Dims ones{1, 1};
  for (const std::int64_t size : kernels(axes)) ones.push_back(size);
  const at::Tensor sums = at::convolution(wide.reshape(planes), at::ones(ones, x.options()), c10::nullopt,
                                          strides(axes), none, dilations(axes), false, none, 1);
  Dims dims = sums.sizes().vec();
  dims[0] = x.size(0);
  dims[1] = x.size(1);
  return sums.reshape(dims);
}

// How many elements each window counts, for every position of the output.
at::Tensor window_counts(const Axes& axes, bool include_pad, const at::Tensor& like) {
  at::Tensor counts = at::ones({}, like.options());
  for (const PlacedAxis& axis : axes) {
    std::vector<double> line;
    for (std::int64_t i = 0; i < axis.output; ++i) {
      const Taps taps = taps_at(axis, i);
      line.push_back(static_cast<double>(include_pad ? taps.counted : taps.count));
    }
    counts = at::mul(counts.unsqueeze(-1), list_of(line).to(like.scalar_type()));
  }
  return counts;
}

void lower_average_pool(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const Axes axes = placed(call, x, nullptr);
  if (mostly_margins(x, axes)) return lower_by_reference(call);
  const at::Tensor counts = window_counts(axes, call.integer("count_include_pad") != 0, x);
  const at::Tensor means = at::div(window_sums(x, axes), counts);
  call.out(0, at::where(at::eq(counts, 0), at::zeros_like(means), means));
}

// A float in opset 1, an integer since.
double exponent_of(const Call& call) {
  const Attr* attr = call.attrs().find("p");
  if (attr == nullptr) return 2;
  if (const auto* number = std::get_if<std::int64_t>(attr)) return static_cast<double>(*number);
  return call.real("p");
}

void lower_lp_pool(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const double p = exponent_of(call);
  const Axes axes = placed(call, x, nullptr);
  if (mostly_margins(x, axes)) return lower_by_reference(call);
  const at::Tensor sums = window_sums(at::pow(at::abs(x), p), axes);
  call.out(0, at::pow(sums, 1 / p));
}

Numbers spatial_axes(const at::Tensor& x) {
  if (x.dim() < 2) throw Error("input X has rank " + std::to_string(x.dim()) + ", expected at least 2");
  Numbers axes;
  for (std::int64_t axis = 2; axis < x.dim(); ++axis) axes.push_back(axis);
  return axes;
}

template <bool kLargest>
void lower_global_pool(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const Numbers axes = spatial_axes(x);
  if (axes.empty()) return call.out(0, x);
  if (x.numel() == 0) return lower_by_reference(call);
  call.out(0, kLargest ? at::amax(x, axes, true) : at::mean(x, axes, true));
}

void lower_global_lp_pool(TorchCall& call) {
  const Numbers axes = spatial_axes(call.in(0));
  const double p = exponent_of(call);
  const at::Tensor powers = at::pow(at::abs(call.in(0)), p);
  call.out(0, at::pow(axes.empty() ? powers : at::sum(powers, axes, true), 1 / p));
}

constexpr TorchLowering kEntries[] = {
    {"Conv", "", lower_conv},
    {"ConvInteger", "", lower_conv_integer},
    {"CausalConvWithState", "", lower_causal_conv},
    {"ConvTranspose", "", lower_conv_transpose},
    {"MaxPool", "", lower_max_pool},
    {"AveragePool", "", lower_average_pool},
    {"LpPool", "", lower_lp_pool},
    {"GlobalMaxPool", "", lower_global_pool<true>},
    {"GlobalAveragePool", "", lower_global_pool<false>},
    {"GlobalLpPool", "", lower_global_lp_pool},
};

}  // namespace

std::span<const TorchLowering> torch_windows() { return kEntries; }

}  // namespace finity
