// Activations and the batch normalisation: shapes stay, values change.
#include <algorithm>

#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

// From 1, or -1.
std::int64_t draw_axis(Chooser& choose, const Dims& dims) {
  const std::int64_t axis = choose.between(0, static_cast<std::int64_t>(dims.size()) - 1);
  return axis == 0 ? -1 : axis;
}
std::int64_t from_front(std::int64_t axis, std::int64_t rank) { return axis < 0 ? axis + rank : axis; }

bool draw_norm(Chooser& choose, const Operands& in, LayerSpec& spec) {
  spec.set("axis", draw_axis(choose, in[0]));
  spec.set("momentum", choose.uniform(0, 1));
  spec.set("epsilon", choose.uniform(1e-3, 1));
  spec.set("center", std::int64_t{choose.coin()});
  spec.set("scale", std::int64_t{choose.coin()});
  return true;
}

// With the statistics it carries.
ValueId build_norm(Net& net, const LayerSpec& spec, const Values& in) {
  const std::int64_t rank = net.rank(in[0]), axis = from_front(spec.number("axis"), rank);
  const ValueId x = net.move_axis(in[0], axis, 1);
  const std::int64_t count = net.dims(x)[1];
  const ValueId scale = spec.flag("scale") ? net.weight({count}, 1) : net.filled({count}, 1);
  const ValueId shift = spec.flag("center") ? net.weight({count}, 1) : net.filled({count}, 0);
  const ValueId mean = net.weight({count}, 1), variance = net.weight_between({count}, 0, 10);
  const ValueId y = net.add(
      "BatchNormalization", {x, scale, shift, mean, variance},
      {{"epsilon", static_cast<float>(spec.real("epsilon"))}, {"momentum", static_cast<float>(spec.real("momentum"))}});
  return net.move_axis(y, 1, axis);
}

bool draw_activation(Chooser& choose, const Operands&, LayerSpec& spec) {
  spec.set("activation", choose.activation());
  return true;
}
ValueId build_activation(Net& net, const LayerSpec& spec, const Values& in) {
  const ValueId y = net.activation(in[0], spec.word("activation"));
  return y == in[0] ? net.add("Identity", {y}) : y;
}

bool draw_relu(Chooser& choose, const Operands&, LayerSpec& spec) {
  if (choose.coin()) spec.set("max_value", choose.uniform(0.1, 10));
  return true;
}
ValueId build_relu(Net& net, const LayerSpec& spec, const Values& in) {
  if (!spec.params.contains("max_value")) return net.add("Relu", {in[0]});
  return net.add("Clip", {in[0], net.number(0), net.number(spec.real("max_value"))});
}

bool draw_alpha(Chooser& choose, const Operands&, LayerSpec& spec) {
  spec.set("alpha", choose.uniform(0, 1));
  return true;
}
ValueId with_alpha(Net& net, const LayerSpec& spec, const Values& in, const char* op) {
  return net.add(op, {in[0]}, {{"alpha", static_cast<float>(spec.real("alpha"))}});
}
ValueId build_leaky(Net& net, const LayerSpec& spec, const Values& in) {
  return with_alpha(net, spec, in, "LeakyRelu");
}
ValueId build_elu(Net& net, const LayerSpec& spec, const Values& in) { return with_alpha(net, spec, in, "Elu"); }
ValueId build_thresholded(Net& net, const LayerSpec& spec, const Values& in) {
  return with_alpha(net, spec, in, "ThresholdedRelu");
}

bool draw_prelu(Chooser& choose, const Operands& in, LayerSpec& spec) {
  Ints shared;
  if (choose.coin()) {
    for (std::int64_t i = 1; i < static_cast<std::int64_t>(in[0].size()); ++i) {
      if (choose.coin()) shared.push_back(i);
    }
  }
  spec.set("shared_axes", shared);
  return true;
}
ValueId build_prelu(Net& net, const LayerSpec& spec, const Values& in) {
  Dims slopes = net.dims(in[0]);
  slopes.erase(slopes.begin());
  for (const std::int64_t axis : spec.list("shared_axes")) slopes[static_cast<std::size_t>(axis - 1)] = 1;
  return net.add("PRelu", {in[0], net.weight(slopes, 1)});
}

bool draw_softmax(Chooser& choose, const Operands& in, LayerSpec& spec) {
  spec.set("axis", draw_axis(choose, in[0]));
  return true;
}
ValueId build_softmax(Net& net, const LayerSpec& spec, const Values& in) {
  return net.add("Softmax", {in[0]}, {{"axis", from_front(spec.number("axis"), net.rank(in[0]))}});
}

}  // namespace

std::vector<LayerKind> value_layers() {
  return {{.name = "batch_normalization", .least_rank = 2, .draw = draw_norm, .build = build_norm},
          {.name = "activation", .least_rank = 2, .draw = draw_activation, .build = build_activation},
          {.name = "ReLU", .least_rank = 2, .draw = draw_relu, .build = build_relu},
          {.name = "leakyReLU", .least_rank = 2, .draw = draw_alpha, .build = build_leaky},
          {.name = "ELU", .least_rank = 2, .draw = draw_alpha, .build = build_elu},
          {.name = "thresholded_ReLU", .least_rank = 2, .draw = draw_alpha, .build = build_thresholded},
          {.name = "PReLU", .least_rank = 2, .draw = draw_prelu, .build = build_prelu},
          {.name = "softmax", .least_rank = 2, .draw = draw_softmax, .build = build_softmax}};
}

}  // namespace finity::muffin
