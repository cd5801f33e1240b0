// Convolutions and pools, their gradient kernels, and local response normalization.
#include <algorithm>

#include "formats/tensorflow/channels.h"

namespace finity::tensorflow {

// ---- layouts ---------------------------------------------------------------

std::vector<std::int64_t> Layout::to_second() const {
  std::vector<std::int64_t> order = counted(spatial + 2);
  if (last) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

std::vector<std::int64_t> Layout::from_second() const {
  std::vector<std::int64_t> order = counted(spatial + 2);
  if (last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

Layout layout_of(const TfCall& call, std::size_t spatial) {
  const std::string format = call.text("data_format", "");
  const bool first = format.size() > 1 && format[1] == 'C';
  if (format.size() > spatial + 2) throw Unsupported("data_format " + format + " is not modelled");
  return {.last = !first, .spatial = spatial};
}

ValueId channels_second(Emit& emit, const Layout& layout, ValueId x) { return emit.transpose(x, layout.to_second()); }
ValueId channels_back(Emit& emit, const Layout& layout, ValueId x) { return emit.transpose(x, layout.from_second()); }

ValueId sizes_second(Emit& emit, const Layout& layout, ValueId sizes) {
  return emit.gather(emit.int64(sizes), emit.ints(layout.to_second()), 0);
}

ValueId per_channel(Emit& emit, const Layout& layout, ValueId numbers) {
  if (layout.last) return numbers;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < layout.spatial; ++i) axes.push_back(static_cast<std::int64_t>(i + 1));
  return emit.unsqueeze(numbers, axes);
}

std::vector<std::int64_t> spatial_entries(const Layout& layout, const std::vector<std::int64_t>& list,
                                          std::string_view what) {
  if (list.empty()) return std::vector<std::int64_t>(layout.spatial, 1);
  if (list.size() != layout.spatial + 2) throw Unsupported(std::string(what) + " has another number of axes");
  if (list[0] != 1 || list[layout.channel()] != 1)
    throw Unsupported(std::string(what) + " of batch and channel other than 1 is not modelled");
  const auto first = list.begin() + static_cast<std::ptrdiff_t>(layout.first_spatial());
  return {first, first + static_cast<std::ptrdiff_t>(layout.spatial)};
}

WindowAttrs window_of(const TfCall& call, const Layout& layout) {
  WindowAttrs window;
  window.strides = spatial_entries(layout, call.integers("strides"), "strides");
  window.dilations = spatial_entries(layout, call.integers("dilations"), "dilations");
  const std::string padding = call.text("padding", "VALID");
  if (padding == "SAME") window.auto_pad = "SAME_UPPER";
  else if (padding == "VALID") window.auto_pad = "VALID";
  else if (padding != "EXPLICIT") throw Unsupported("padding " + padding + " is not modelled");
  if (padding != "EXPLICIT") return window;
  const std::vector<std::int64_t> list = call.integers("explicit_paddings");
  if (list.size() != 2 * (layout.spatial + 2)) throw Unsupported("explicit_paddings has another number of axes");
  for (std::size_t end = 0; end < 2; ++end) {
    for (std::size_t i = 0; i < layout.spatial; ++i)
      window.pads.push_back(list[2 * (layout.first_spatial() + i) + end]);
  }
  return window;
}

namespace {

// ---- convolution -----------------------------------------------------------

// [spatial..., in, out] as [out, in, spatial...], and back.
std::vector<std::int64_t> filter_order(std::size_t spatial) {
  std::vector<std::int64_t> order = {static_cast<std::int64_t>(spatial) + 1, static_cast<std::int64_t>(spatial)};
  for (std::size_t i = 0; i < spatial; ++i) order.push_back(static_cast<std::int64_t>(i));
  return order;
}

std::vector<std::int64_t> filter_back(std::size_t spatial) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < spatial; ++i) order.push_back(static_cast<std::int64_t>(i + 2));
  order.push_back(1);
  order.push_back(0);
  return order;
}

// [h, w, channels, multiplier] as [channels * multiplier, 1, h, w].
ValueId depthwise_filter(Emit& emit, ValueId filter) {
  const ValueId sizes = emit.concat({emit.ints({-1, 1}), emit.shape_part(filter, 0, 2)}, 0);
  return emit.reshape(emit.transpose(filter, {2, 3, 0, 1}), sizes);
}

std::int64_t need_channels(std::int64_t size) {
  if (size < 1) throw Unsupported("the number of channels is not known");
  return size;
}

std::int64_t groups_of(std::int64_t input, std::int64_t filter) {
  return input > 0 && filter > 0 && input % filter == 0 ? input / filter : 1;
}

ValueId add_windowed(TfCall& call, std::string_view op, std::vector<ValueId> inputs, const WindowAttrs& window,
                     std::int64_t group) {
  if (window.auto_pad == "NOTSET")
    return call.add(
        op, std::move(inputs),
        {{"strides", window.strides}, {"dilations", window.dilations}, {"pads", window.pads}, {"group", group}});
  return call.add(
      op, std::move(inputs),
      {{"strides", window.strides}, {"dilations", window.dilations}, {"auto_pad", window.auto_pad}, {"group", group}});
}

template <std::size_t kSpatial>
void lower_conv(TfCall& call) {
  call.give(convolved(call, call.in(0), call.in(1), kSpatial, false));
}

void lower_depthwise(TfCall& call) { call.give(convolved(call, call.in(0), call.in(1), 2, true)); }

// (input_sizes, filter, out_backprop)
template <std::size_t kSpatial>
void lower_conv_input_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, kSpatial);
  const ValueId like = emit.filled(sizes_second(emit, layout, call.in(0)), 0, call.dtype_of(call.in(2)));
  const ValueId weights = emit.transpose(call.in(1), filter_order(kSpatial));
  const ValueId gradient =
      add_windowed(call, "finity:ConvInputGradient", {channels_second(emit, layout, call.in(2)), weights, like},
                   window_of(call, layout), groups_of(emit.size(like, 1), emit.size(weights, 1)));
  call.give(channels_back(emit, layout, gradient));
}

// (input, filter_sizes, out_backprop)
template <std::size_t kSpatial>
void lower_conv_filter_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, kSpatial);
  const ValueId sizes = emit.gather(emit.int64(call.in(1)), emit.ints(filter_order(kSpatial)), 0);
  const ValueId like = emit.filled(sizes, 0, call.dtype_of(call.in(0)));
  const ValueId x = channels_second(emit, layout, call.in(0));
  const ValueId gradient =
      add_windowed(call, "finity:ConvWeightGradient", {channels_second(emit, layout, call.in(2)), x, like},
                   window_of(call, layout), groups_of(emit.size(x, 1), emit.size(like, 1)));
  call.give(emit.transpose(gradient, filter_back(kSpatial)));
}

void lower_depthwise_input_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, 2);
  const ValueId like = emit.filled(sizes_second(emit, layout, call.in(0)), 0, call.dtype_of(call.in(2)));
  const ValueId gradient =
      add_windowed(call, "finity:ConvInputGradient",
                   {channels_second(emit, layout, call.in(2)), depthwise_filter(emit, call.in(1)), like},
                   window_of(call, layout), need_channels(emit.size(call.in(1), 2)));
  call.give(channels_back(emit, layout, gradient));
}

void lower_depthwise_filter_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, 2);
  const std::vector<std::int64_t> sizes = emit.need_ints(call.in(1), "the size of the filter");
  if (sizes.size() != 4) throw Unsupported("the filter does not have four axes");
  const ValueId like =
      emit.filled(emit.ints({sizes[2] * sizes[3], 1, sizes[0], sizes[1]}), 0, call.dtype_of(call.in(0)));
  const ValueId gradient =
      add_windowed(call, "finity:ConvWeightGradient",
                   {channels_second(emit, layout, call.in(2)), channels_second(emit, layout, call.in(0)), like},
                   window_of(call, layout), need_channels(sizes[2]));
  call.give(emit.transpose(emit.reshape(gradient, {sizes[2], sizes[3], sizes[0], sizes[1]}), {2, 3, 0, 1}));
}

// ---- pools -----------------------------------------------------------------

ValueId add_pool(TfCall& call, std::string_view op, std::vector<ValueId> inputs, const Layout& layout) {
  WindowAttrs window = window_of(call, layout);
  std::vector<std::int64_t> kernel = spatial_entries(layout, call.integers("ksize"), "ksize");
  if (window.auto_pad == "NOTSET")
    return call.add(op, std::move(inputs),
                    {{"kernel_shape", kernel}, {"strides", window.strides}, {"pads", window.pads}});
  return call.add(op, std::move(inputs),
                  {{"kernel_shape", kernel}, {"strides", window.strides}, {"auto_pad", window.auto_pad}});
}

template <OpName Op, std::size_t kSpatial>
void lower_pool(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, kSpatial);
  const ValueId x = channels_second(emit, layout, call.in(0));
  call.give(channels_back(emit, layout, add_pool(call, Op.letters, {x}, layout)));
}

// (orig_input, orig_output, grad)
template <std::size_t kSpatial>
void lower_max_pool_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, kSpatial);
  const ValueId gradient =
      add_pool(call, "finity:MaxPoolGradient",
               {channels_second(emit, layout, call.in(2)), channels_second(emit, layout, call.in(0))}, layout);
  call.give(channels_back(emit, layout, gradient));
}

// (orig_input_shape, grad)
template <std::size_t kSpatial>
void lower_average_pool_grad(TfCall& call) {
  Emit emit(call);
  const Layout layout = layout_of(call, kSpatial);
  const ValueId like = emit.filled(sizes_second(emit, layout, call.in(0)), 0, call.dtype_of(call.in(1)));
  const ValueId gradient =
      add_pool(call, "finity:AveragePoolGradient", {channels_second(emit, layout, call.in(1)), like}, layout);
  call.give(channels_back(emit, layout, gradient));
}

// ---- local response normalization ------------------------------------------

struct ResponseNorm {
  std::int64_t radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;

  explicit ResponseNorm(const TfCall& call)
      : radius(call.integer("depth_radius", 5)),
        bias(call.real("bias", 1)),
        alpha(call.real("alpha", 1)),
        beta(call.real("beta", 0.5)) {}
  std::int64_t size() const { return 2 * radius + 1; }
};

// The table divides alpha by the size of the window.
void lower_response_norm(TfCall& call) {
  Emit emit(call);
  const ResponseNorm norm(call);
  const Layout layout;
  const ValueId x = channels_second(emit, layout, call.in(0));
  const ValueId y = emit.add("LRN", {x},
                             {{"size", norm.size()},
                              {"alpha", static_cast<float>(norm.alpha * static_cast<double>(norm.size()))},
                              {"beta", static_cast<float>(norm.beta)},
                              {"bias", static_cast<float>(norm.bias)}});
  call.give(channels_back(emit, layout, y));
}

// Sums over neighbouring channels of [..., channels].
ValueId neighbour_sum(Emit& emit, const ResponseNorm& norm, ValueId x) {
  const ValueId rows = emit.reshape(x, emit.concat({emit.ints({-1, 1}), emit.shape_part(x, 3, 4)}, 0));
  const ValueId means = emit.add("AveragePool", {rows},
                                 {{"kernel_shape", std::vector<std::int64_t>{norm.size()}},
                                  {"pads", std::vector<std::int64_t>{norm.radius, norm.radius}},
                                  {"count_include_pad", 1}});
  const ValueId sums = emit.product(means, emit.number_like(static_cast<double>(norm.size()), x));
  return emit.reshape(sums, emit.shape(x));
}

// (input_grads, input_image, output_image): norm^-beta dy - 2 alpha beta x sum(dy y / norm), norm = bias + alpha
// sum(x^2)
void lower_response_norm_grad(TfCall& call) {
  Emit emit(call);
  const ResponseNorm norm(call);
  const ValueId gradient = call.in(0), x = call.in(1), y = call.in(2);
  const auto number = [&](double value) { return emit.number_like(value, x); };
  const ValueId squares = neighbour_sum(emit, norm, emit.product(x, x));
  const ValueId base = emit.sum(number(norm.bias), emit.product(number(norm.alpha), squares));
  const ValueId own = emit.product(emit.add("Pow", {base, number(-norm.beta)}), gradient);
  const ValueId others = neighbour_sum(emit, norm, emit.quotient(emit.product(gradient, y), base));
  const ValueId factor = emit.product(number(2 * norm.alpha * norm.beta), x);
  call.give(emit.difference(own, emit.product(factor, others)));
}

constexpr Lowering kWindows[] = {
    {.op = "AvgPool", .lower = lower_pool<"AveragePool", 2>},
    {.op = "AvgPool3D", .lower = lower_pool<"AveragePool", 3>},
    {.op = "AvgPool3DGrad", .lower = lower_average_pool_grad<3>},
    {.op = "AvgPoolGrad", .lower = lower_average_pool_grad<2>},
    {.op = "Conv2D", .lower = lower_conv<2>},
    {.op = "Conv2DBackpropFilter", .lower = lower_conv_filter_grad<2>},
    {.op = "Conv2DBackpropInput", .lower = lower_conv_input_grad<2>},
    {.op = "Conv3D", .lower = lower_conv<3>},
    {.op = "Conv3DBackpropFilterV2", .lower = lower_conv_filter_grad<3>},
    {.op = "Conv3DBackpropInputV2", .lower = lower_conv_input_grad<3>},
    {.op = "DepthwiseConv2dNative", .lower = lower_depthwise},
    {.op = "DepthwiseConv2dNativeBackpropFilter", .lower = lower_depthwise_filter_grad},
    {.op = "DepthwiseConv2dNativeBackpropInput", .lower = lower_depthwise_input_grad},
    {.op = "LRN", .lower = lower_response_norm},
    {.op = "LRNGrad", .lower = lower_response_norm_grad},
    {.op = "MaxPool", .lower = lower_pool<"MaxPool", 2>},
    {.op = "MaxPool3D", .lower = lower_pool<"MaxPool", 3>},
    {.op = "MaxPool3DGrad", .lower = lower_max_pool_grad<3>},
    {.op = "MaxPoolGrad", .lower = lower_max_pool_grad<2>},
};

}  // namespace

ValueId convolved(TfCall& call, ValueId x, ValueId filter, std::size_t spatial, bool depthwise) {
  Emit emit(call);
  const Layout layout = layout_of(call, spatial);
  const ValueId input = channels_second(emit, layout, x);
  const ValueId weights = depthwise ? depthwise_filter(emit, filter) : emit.transpose(filter, filter_order(spatial));
  const std::int64_t group =
      depthwise ? need_channels(emit.size(filter, 2)) : groups_of(emit.size(input, 1), emit.size(filter, spatial));
  return channels_back(emit, layout, add_windowed(call, "Conv", {input, weights}, window_of(call, layout), group));
}

std::span<const Lowering> window_lowerings() { return kWindows; }

}  // namespace finity::tensorflow
