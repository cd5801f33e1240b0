// Poolings, up-sampling, padding and cropping: what moves a window without weights.
#include <algorithm>

#include "base/error.h"
#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

bool channels_first(const LayerSpec& spec) { return spec.word("data_format") == "channels_first"; }

std::size_t first_axis(const LayerSpec& spec) { return channels_first(spec) ? 2 : 1; }

Ints spatial(const LayerSpec& spec, const Dims& dims) {
  const auto begin = dims.begin() + static_cast<std::ptrdiff_t>(first_axis(spec));
  return {begin, begin + static_cast<std::ptrdiff_t>(dims.size() - 2)};
}

// One-dimensional layers have channels last.
void draw_format(Chooser& choose, const Dims& dims, LayerSpec& spec) {
  spec.set("data_format", dims.size() > 3 && choose.coin() ? "channels_first" : "channels_last");
}

bool draw_pool(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, in[0], spec);
  const Ints window = spatial(spec, in[0]);
  const std::int64_t least = *std::ranges::min_element(window);
  spec.set("pool_size", choose.between(1, least));
  spec.set("strides", choose.coin() ? spec.number("pool_size") : choose.between(1, least));
  spec.set("padding", choose.one_of<const char*>({"valid", "same"}));
  return true;
}

bool draw_global(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, in[0], spec);
  return true;
}

bool draw_cropping(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, in[0], spec);
  Ints begin, end;
  for (const std::int64_t size : spatial(spec, in[0])) {
    begin.push_back(choose.between(0, size - 1));
    end.push_back(choose.between(0, size - 1 - begin.back()));
  }
  const std::int64_t form = choose.between(0, 2);
  for (std::size_t i = 0; i < begin.size(); ++i) {  // one number, one per axis, or pairs
    if (form == 1) end[i] = begin[i] = std::min(begin[i], end[i]);
  }
  if (form == 0) {
    const std::int64_t all = std::min(*std::ranges::min_element(begin), *std::ranges::min_element(end));
    std::ranges::fill(begin, all);
    std::ranges::fill(end, all);
  }
  spec.set("begin", begin);
  spec.set("end", end);
  return true;
}

bool draw_padding(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, in[0], spec);
  const std::int64_t form = choose.between(0, 2), all = choose.size();
  Ints begin, end;
  for (std::size_t i = 0; i + 2 < in[0].size(); ++i) {
    begin.push_back(form == 0 ? all : choose.size());
    end.push_back(form == 2 ? choose.size() : begin.back());
  }
  spec.set("begin", begin);
  spec.set("end", end);
  return true;
}

bool draw_up_sampling(Chooser& choose, const Operands& in, LayerSpec& spec) {
  draw_format(choose, in[0], spec);
  const bool each = choose.coin();
  Ints factors(in[0].size() - 2, choose.size());
  for (std::int64_t& factor : factors) factor = each ? choose.size() : factor;
  spec.set("size", factors);
  return true;
}

ValueId to_first(Net& net, const LayerSpec& spec, ValueId x) {
  return channels_first(spec) ? x : net.move_axis(x, net.rank(x) - 1, 1);
}
ValueId from_first(Net& net, const LayerSpec& spec, ValueId x) {
  return channels_first(spec) ? x : net.move_axis(x, 1, net.rank(x) - 1);
}

ValueId build_pool(Net& net, const LayerSpec& spec, const Values& in, const char* op) {
  const ValueId x = to_first(net, spec, in[0]);
  const Dims dims = net.dims(x);
  const Ints window(dims.begin() + 2, dims.end());
  const std::int64_t pool = spec.number("pool_size"), stride = spec.number("strides");
  Ints begin, end;
  for (const std::int64_t size : window) {
    const bool same = spec.word("padding") == "same";
    const std::int64_t total =
        same ? std::max<std::int64_t>(((size + stride - 1) / stride - 1) * stride + pool - size, 0) : 0;
    begin.push_back(total / 2);
    end.push_back(total - total / 2);
  }
  begin.insert(begin.end(), end.begin(), end.end());
  // Averages leave padding out, which is ONNX's default.
  return from_first(
      net, spec,
      net.add(
          op, {x},
          {{"kernel_shape", Ints(window.size(), pool)}, {"strides", Ints(window.size(), stride)}, {"pads", begin}}));
}

ValueId build_max_pool(Net& net, const LayerSpec& spec, const Values& in) {
  return build_pool(net, spec, in, "MaxPool");
}
ValueId build_average_pool(Net& net, const LayerSpec& spec, const Values& in) {
  return build_pool(net, spec, in, "AveragePool");
}

ValueId build_global(Net& net, const LayerSpec& spec, const Values& in, const char* op) {
  const ValueId y = net.add(op, {to_first(net, spec, in[0])});
  const Dims dims = net.dims(y);
  return net.reshape(y, {dims[0], dims[1]});
}

ValueId build_global_max(Net& net, const LayerSpec& spec, const Values& in) {
  return build_global(net, spec, in, "GlobalMaxPool");
}
ValueId build_global_average(Net& net, const LayerSpec& spec, const Values& in) {
  return build_global(net, spec, in, "GlobalAveragePool");
}

ValueId build_cropping(Net& net, const LayerSpec& spec, const Values& in) {
  const Dims dims = net.dims(in[0]);
  const Ints begin = spec.list("begin"), end = spec.list("end");
  Ints starts, ends, axes;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(first_axis(spec) + i));
    starts.push_back(begin[i]);
    ends.push_back(dims[first_axis(spec) + i] - end[i]);
    if (starts.back() >= ends.back()) throw Error("nothing is left");
  }
  return net.add("Slice", {in[0], net.ints(starts), net.ints(ends), net.ints(axes)});
}

ValueId build_padding(Net& net, const LayerSpec& spec, const Values& in) {
  const std::size_t rank = net.dims(in[0]).size();
  const Ints begin = spec.list("begin"), end = spec.list("end");
  Ints pads(2 * rank, 0);
  for (std::size_t i = 0; i < begin.size(); ++i) {
    pads[first_axis(spec) + i] = begin[i];
    pads[rank + first_axis(spec) + i] = end[i];
  }
  return net.pad(in[0], pads);
}

// Every element so often along an axis.
ValueId repeat_elements(Net& net, ValueId x, std::size_t axis, std::int64_t times) {
  const Dims dims = net.dims(x);
  Dims wide = dims, result = dims;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  const ValueId apart = net.reshape(x, wide);
  wide[axis + 1] = times;
  result[axis] *= times;
  return net.reshape(net.add("Expand", {apart, net.ints(wide)}), result);
}

// Images by Resize; libraries have none for other ranks, where elements are repeated.
ValueId build_up_sampling(Net& net, const LayerSpec& spec, const Values& in) {
  const Ints factors = spec.list("size");
  if (factors.size() != 2) {
    ValueId y = in[0];
    for (std::size_t i = 0; i < factors.size(); ++i) y = repeat_elements(net, y, first_axis(spec) + i, factors[i]);
    return y;
  }
  const ValueId x = to_first(net, spec, in[0]);
  const std::vector<float> scales = {1, 1, static_cast<float>(factors[0]), static_cast<float>(factors[1])};
  const ValueId scale = net.writer().constant(Tensor::of<float>(DType::float32, {4}, scales));
  const ValueId y = net.add("Resize", {x, ValueId{}, scale},
                            {{"mode", std::string("nearest")},
                             {"coordinate_transformation_mode", std::string("asymmetric")},
                             {"nearest_mode", std::string("floor")}});
  return from_first(net, spec, y);
}

using Build = ValueId (*)(Net&, const LayerSpec&, const Values&);
using DrawParams = bool (*)(Chooser&, const Operands&, LayerSpec&);

// The same layer for one, two and three axes.
void add_family(std::vector<LayerKind>& kinds, std::array<std::string_view, 3> names, DrawParams draw, Build build) {
  for (int axes = 1; axes <= 3; ++axes)
    kinds.push_back({.name = names[static_cast<std::size_t>(axes - 1)],
                     .least_rank = axes + 2,
                     .most_rank = axes + 2,
                     .draw = draw,
                     .build = build});
}

}  // namespace

std::vector<LayerKind> pooling_layers() {
  std::vector<LayerKind> kinds;
  add_family(kinds, {"max_pooling1D", "max_pooling2D", "max_pooling3D"}, draw_pool, build_max_pool);
  add_family(kinds, {"average_pooling1D", "average_pooling2D", "average_pooling3D"}, draw_pool, build_average_pool);
  add_family(kinds, {"global_max_pooling1D", "global_max_pooling2D", "global_max_pooling3D"}, draw_global,
             build_global_max);
  add_family(kinds, {"global_average_pooling1D", "global_average_pooling2D", "global_average_pooling3D"}, draw_global,
             build_global_average);
  add_family(kinds, {"cropping1D", "cropping2D", "cropping3D"}, draw_cropping, build_cropping);
  add_family(kinds, {"up_sampling1D", "up_sampling2D", "up_sampling3D"}, draw_up_sampling, build_up_sampling);
  add_family(kinds, {"zero_padding1D", "zero_padding2D", "zero_padding3D"}, draw_padding, build_padding);
  return kinds;
}

}  // namespace finity::muffin
