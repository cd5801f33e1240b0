// Dense, convolutions of all kinds, and locally connected layers.
#include <algorithm>

#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

bool channels_first(const LayerSpec& spec) { return spec.word("data_format") == "channels_first"; }

// Sizes of the window's axes. Operands are [batch, sizes..., channels] or [batch, channels, sizes...].
Ints spatial(const Dims& dims, bool first) {
  return first ? Ints(dims.begin() + 2, dims.end()) : Ints(dims.begin() + 1, dims.end() - 1);
}

void draw_format(Chooser& choose, LayerSpec& spec) {
  spec.set("data_format", choose.coin() ? "channels_first" : "channels_last");
}

void draw_ending(Chooser& choose, LayerSpec& spec) {
  spec.set("activation", choose.activation());
  spec.set("use_bias", std::int64_t{choose.coin()});
}

// Kernel, and either strides or dilations, such that one window fits.
void draw_window(Chooser& choose, const Ints& window, LayerSpec& spec) {
  const std::int64_t least = *std::ranges::min_element(window);
  const std::int64_t kernel = choose.between(1, least), limit = least / kernel;
  const bool dilated = choose.coin();
  spec.set("kernel", kernel);
  spec.set("strides", dilated ? 1 : choose.between(1, limit));
  spec.set("dilation", dilated ? choose.between(1, limit) : 1);
}

bool draw_conv(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, spec);
  const bool one = in[0].size() == 3;
  spec.set("padding", one ? choose.one_of<const char*>({"valid", "same", "causal"})
                          : choose.one_of<const char*>({"valid", "same"}));
  if (spec.word("padding") == "causal") spec.set("data_format", "channels_last");
  draw_window(choose, spatial(in[0], channels_first(spec)), spec);
  spec.set("filters", choose.size());
  draw_ending(choose, spec);
  return true;
}

bool draw_separable(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_conv(choose, in, spec);
  if (spec.word("padding") == "causal") spec.set("padding", "same");
  spec.set("depth_multiplier", choose.size());
  return true;
}

// Kernel and strides of their own, no dilation.
void draw_plain_window(Chooser& choose, const Dims& dims, LayerSpec& spec) {
  draw_format(choose, spec);
  const Ints window = spatial(dims, channels_first(spec));
  const std::int64_t least = *std::ranges::min_element(window);
  spec.set("kernel", choose.between(1, least));
  spec.set("strides", choose.between(1, least));
  spec.set("dilation", 1);
  spec.set("padding", choose.one_of<const char*>({"valid", "same"}));
}

bool draw_depthwise(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_plain_window(choose, in[0], spec);
  spec.set("depth_multiplier", choose.size());
  draw_ending(choose, spec);
  return true;
}

bool draw_transposed(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_plain_window(choose, in[0], spec);
  spec.set("filters", choose.size());
  draw_ending(choose, spec);
  return true;
}

bool draw_local(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_transposed(choose, in, spec);
  spec.set("padding", "valid");
  // In one dimension Keras takes channels last whatever it is told.
  if (in[0].size() == 3) spec.set("data_format", "channels_last");
  const Ints window = spatial(in[0], channels_first(spec));
  spec.set("kernel", std::min(spec.number("kernel"), *std::ranges::min_element(window)));
  return true;
}

bool draw_dense(Chooser& choose, const Operands& in, LayerSpec& spec) {
  spec.set("units", choose.size());
  spec.set("use_bias", std::int64_t{choose.coin()});
  if (in[0].size() > 2) spec.set("flat", std::int64_t{choose.coin()});
  return true;
}

// How much is added before and after an axis. An odd element goes to the end.
std::pair<std::int64_t, std::int64_t> padding_of(const LayerSpec& spec, std::int64_t size) {
  const std::int64_t stride = spec.number("strides");
  const std::int64_t reach = (spec.number("kernel") - 1) * spec.number("dilation") + 1;
  if (spec.word("padding") == "causal") return {reach - 1, 0};
  if (spec.word("padding") != "same") return {0, 0};
  const std::int64_t total = std::max<std::int64_t>(((size + stride - 1) / stride - 1) * stride + reach - size, 0);
  return {total / 2, total - total / 2};
}

Ints window_pads(const LayerSpec& spec, const Ints& window) {
  Ints pads;
  for (const std::int64_t size : window) pads.push_back(padding_of(spec, size).first);
  for (const std::int64_t size : window) pads.push_back(padding_of(spec, size).second);
  return pads;
}

Ints repeated(std::int64_t value, std::size_t count) { return Ints(count, value); }

ValueId to_first(Net& net, const LayerSpec& spec, ValueId x) {
  return channels_first(spec) ? x : net.move_axis(x, net.rank(x) - 1, 1);
}
ValueId from_first(Net& net, const LayerSpec& spec, ValueId x) {
  return channels_first(spec) ? x : net.move_axis(x, 1, net.rank(x) - 1);
}

// The convolution of x, channels first, with a bias where there is one.
ValueId convolve(Net& net, const LayerSpec& spec, ValueId x, std::int64_t filters, std::int64_t group, bool bias) {
  const Dims dims = net.dims(x);
  const Ints window = spatial(dims, true);
  const std::int64_t kernel = spec.number("kernel");
  Dims shape = {filters, dims[1] / group};
  std::int64_t fan_in = dims[1] / group;
  for (std::size_t i = 0; i < window.size(); ++i) {
    shape.push_back(kernel);
    fan_in *= kernel;
  }
  Values operands = {x, net.weight(shape, fan_in)};
  if (bias) operands.push_back(net.weight({filters}, fan_in));
  return net.add("Conv", operands,
                 {{"kernel_shape", repeated(kernel, window.size())},
                  {"strides", repeated(spec.number("strides"), window.size())},
                  {"dilations", repeated(spec.number("dilation"), window.size())},
                  {"pads", window_pads(spec, window)},
                  {"group", group}});
}

// Activations act on the layer's own layout: softmax is over its last axis.
ValueId ending(Net& net, const LayerSpec& spec, ValueId first) {
  return net.activation(from_first(net, spec, first), spec.word("activation"));
}

ValueId build_conv(Net& net, const LayerSpec& spec, const Values& in) {
  return ending(net, spec,
                convolve(net, spec, to_first(net, spec, in[0]), spec.number("filters"), 1, spec.flag("use_bias")));
}

ValueId build_depthwise(Net& net, const LayerSpec& spec, const Values& in) {
  const ValueId x = to_first(net, spec, in[0]);
  const std::int64_t count = net.dims(x)[1];
  return ending(net, spec,
                convolve(net, spec, x, count * spec.number("depth_multiplier"), count, spec.flag("use_bias")));
}

ValueId build_separable(Net& net, const LayerSpec& spec, const Values& in) {
  const ValueId x = to_first(net, spec, in[0]);
  const std::int64_t count = net.dims(x)[1];
  const ValueId deep = convolve(net, spec, x, count * spec.number("depth_multiplier"), count, false);
  LayerSpec point = spec;
  for (const char* name : {"kernel", "strides", "dilation"}) point.set(name, 1);
  point.set("padding", "valid");
  return ending(net, spec, convolve(net, point, deep, spec.number("filters"), 1, spec.flag("use_bias")));
}

// "valid" gives in * stride + max(kernel - stride, 0), "same" gives in * stride: what is too long is cropped as the
// forward convolution pads, what is too short follows as zeros, to which the bias is added like to everything.
ValueId build_transposed(Net& net, const LayerSpec& spec, const Values& in) {
  const ValueId x = to_first(net, spec, in[0]);
  const Dims dims = net.dims(x);
  const std::size_t axes = dims.size() - 2;
  const std::int64_t kernel = spec.number("kernel"), stride = spec.number("strides"), filters = spec.number("filters");
  Dims shape = {dims[1], filters};
  shape.resize(dims.size(), kernel);
  const std::int64_t cut = spec.word("padding") == "same" ? std::max<std::int64_t>(kernel - stride, 0) : 0;
  Ints pads = repeated(cut / 2, axes);
  pads.resize(2 * axes, cut - cut / 2);
  ValueId y = net.add("ConvTranspose", {x, net.weight(shape, dims[1] * kernel)},
                      {{"kernel_shape", repeated(kernel, axes)}, {"strides", repeated(stride, axes)}, {"pads", pads}});
  if (stride > kernel) {
    Ints more(2 * dims.size(), 0);
    for (std::size_t i = dims.size() + 2; i < more.size(); ++i) more[i] = stride - kernel;
    y = net.pad(y, more);
  }
  if (spec.flag("use_bias")) {
    Dims bias(dims.size() - 1, 1);
    bias[0] = filters;
    y = net.add("Add", {y, net.weight(bias, dims[1])});
  }
  return ending(net, spec, y);
}

// Which elements of the flattened window axes each place of the result looks at.
Ints patch_indices(const Ints& window, std::int64_t kernel, std::int64_t stride, Ints& counts) {
  counts.clear();
  for (const std::int64_t size : window) counts.push_back((size - kernel) / stride + 1);
  const std::int64_t columns = window.size() == 2 ? window[1] : 1;
  const std::int64_t wide = window.size() == 2 ? counts[1] : 1, across = window.size() == 2 ? kernel : 1;
  Ints indices;
  for (std::int64_t row = 0; row < counts[0]; ++row) {
    for (std::int64_t column = 0; column < wide; ++column) {
      for (std::int64_t i = 0; i < kernel; ++i) {
        for (std::int64_t j = 0; j < across; ++j) indices.push_back((row * stride + i) * columns + column * stride + j);
      }
    }
  }
  return indices;
}

// A product of its own at every place.
ValueId build_local(Net& net, const LayerSpec& spec, const Values& in) {
  const bool first = channels_first(spec);
  const ValueId x = first ? net.move_axis(in[0], 1, net.rank(in[0]) - 1) : in[0];
  const Dims dims = net.dims(x);
  const std::int64_t kernel = spec.number("kernel"), filters = spec.number("filters");
  Ints counts;
  const Ints indices = patch_indices(spatial(dims, false), kernel, spec.number("strides"), counts);
  std::int64_t places = 1;
  for (const std::int64_t count : counts) places *= count;
  const std::int64_t taps = static_cast<std::int64_t>(indices.size()) / places, depth = taps * dims.back();
  const std::int64_t cells = element_count(spatial(dims, false));
  const ValueId flat = net.reshape(x, {dims[0], cells, dims.back()});
  const ValueId patches = net.reshape(net.gather(flat, {places, taps}, indices, 1), {dims[0], places, depth});
  ValueId y = net.add("MatMul", {net.transpose(patches, {1, 0, 2}), net.weight({places, depth, filters}, depth)});
  y = net.transpose(y, {1, 0, 2});
  if (spec.flag("use_bias")) y = net.add("Add", {y, net.weight({places, filters}, depth)});
  Dims shape = {dims[0]};
  shape.insert(shape.end(), counts.begin(), counts.end());
  shape.push_back(filters);
  y = net.reshape(y, shape);
  if (first) y = net.move_axis(y, net.rank(y) - 1, 1);
  return net.activation(y, spec.word("activation"));
}

// On the last axis, whatever the rank: by one product of matrices as Keras does it ("flat"), or of many.
ValueId build_dense(Net& net, const LayerSpec& spec, const Values& in) {
  Dims dims = net.dims(in[0]);
  const std::int64_t depth = dims.back(), units = spec.number("units");
  const bool flat = spec.flag("flat");
  const ValueId x = flat ? net.reshape(in[0], {element_count(dims) / depth, depth}) : in[0];
  ValueId y = net.add("MatMul", {x, net.weight({depth, units}, depth)});
  if (spec.flag("use_bias")) y = net.add("Add", {y, net.weight({units}, depth)});
  dims.back() = units;
  return flat ? net.reshape(y, dims) : y;
}

}  // namespace

std::vector<LayerKind> window_layers() {
  return {
      {.name = "dense", .least_rank = 2, .draw = draw_dense, .build = build_dense},
      {.name = "conv1D", .least_rank = 3, .most_rank = 3, .draw = draw_conv, .build = build_conv},
      {.name = "conv2D", .least_rank = 4, .most_rank = 4, .draw = draw_conv, .build = build_conv},
      {.name = "conv3D", .least_rank = 5, .most_rank = 5, .draw = draw_conv, .build = build_conv},
      {.name = "separable_conv1D", .least_rank = 3, .most_rank = 3, .draw = draw_separable, .build = build_separable},
      {.name = "separable_conv2D", .least_rank = 4, .most_rank = 4, .draw = draw_separable, .build = build_separable},
      {.name = "depthwise_conv2D", .least_rank = 4, .most_rank = 4, .draw = draw_depthwise, .build = build_depthwise},
      {.name = "conv2D_transpose", .least_rank = 4, .most_rank = 4, .draw = draw_transposed, .build = build_transposed},
      {.name = "conv3D_transpose", .least_rank = 5, .most_rank = 5, .draw = draw_transposed, .build = build_transposed},
      {.name = "locally_connected1D", .least_rank = 3, .most_rank = 3, .draw = draw_local, .build = build_local},
      {.name = "locally_connected2D", .least_rank = 4, .most_rank = 4, .draw = draw_local, .build = build_local}};
}

}  // namespace finity::muffin
