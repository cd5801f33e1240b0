#include "muffin/layers.h"

#include <algorithm>

#include "base/error.h"

namespace finity::muffin {

std::string Chooser::activation(bool plain) {
  return plain ? one_of<const char*>({"relu", "sigmoid", "softplus", "tanh", "elu", "linear"})
               : one_of<const char*>({"relu", "sigmoid", "softmax", "softplus", "tanh", "selu", "elu", "linear"});
}

Ints Chooser::permutation(std::size_t count) {
  Ints order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
  return order;
}

std::span<const LayerKind> layer_kinds() {
  static const std::vector<LayerKind> all = [] {
    std::vector<LayerKind> kinds;
    for (const auto& family :
         {window_layers(), pooling_layers(), recurrent_layers(), shape_layers(), value_layers(), merging_layers()})
      kinds.insert(kinds.end(), family.begin(), family.end());
    return kinds;
  }();
  return all;
}

const LayerKind& layer_kind(std::string_view name) {
  const auto kinds = layer_kinds();
  const auto found = std::ranges::find(kinds, name, &LayerKind::name);
  if (found == kinds.end()) throw Error("there is no layer type '" + std::string(name) + "'");
  return *found;
}

std::optional<LayerSpec> draw_layer(const LayerKind& kind, const std::vector<Dims>& operands, Chooser& choose) {
  const auto fits = [&](const Dims& dims) { return kind.takes_rank(dims.size()); };
  if (!std::ranges::all_of(operands, fits) || operands.empty()) return std::nullopt;
  if (kind.two_only && operands.size() != 2) return std::nullopt;
  if (kind.same_shape && std::ranges::any_of(operands, [&](const Dims& dims) { return dims != operands.front(); }))
    return std::nullopt;
  LayerSpec spec{.kind = std::string(kind.name), .seed = choose.rng().bits()};
  if (!kind.draw(choose, operands, spec)) return std::nullopt;
  return spec;
}

ValueId build_layer(Net& net, const LayerSpec& spec, const std::vector<ValueId>& operands) {
  net.seed(spec.seed);
  net.change(spec.word("changed_weights"));
  return layer_kind(spec.kind).build(net, spec, operands);
}

std::optional<LayerSize> size_of_layer(const LayerSpec& spec, const std::vector<Dims>& operands) {
  try {
    Net net(Weights::none);
    std::vector<ValueId> inputs;
    const DType dtype = spec.kind == "embedding" ? DType::int64 : DType::float32;
    for (const Dims& dims : operands) inputs.push_back(net.input("x", dtype, dims));
    const ValueId out = build_layer(net, spec, inputs);
    return LayerSize{.dims = net.dims(out),
                     .weights = net.weight_elements(),
                     .most_elements = net.most_elements(),
                     .nodes = net.writer().graph().nodes().size()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace finity::muffin
