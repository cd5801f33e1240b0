// Layers that only move elements, and the embedding.
#include <algorithm>

#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

constexpr std::int64_t kWords = 1001;

bool draw_embedding(Chooser& choose, const Operands&, LayerSpec& spec) {
  spec.set("input_dim", kWords);
  spec.set("output_dim", choose.size());
  return true;
}

ValueId build_embedding(Net& net, const LayerSpec& spec, const Values& in) {
  return net.add("Gather", {net.weight({spec.number("input_dim"), spec.number("output_dim")}, 1), in[0]});
}

// The same sizes in another order.
bool draw_reshape(Chooser& choose, const Operands& in, LayerSpec& spec) {
  Ints target;
  for (const std::int64_t i : choose.permutation(in[0].size() - 1))
    target.push_back(in[0][static_cast<std::size_t>(i) + 1]);
  spec.set("target_shape", target);
  return true;
}

ValueId build_reshape(Net& net, const LayerSpec& spec, const Values& in) {
  Dims target = spec.list("target_shape");
  target.insert(target.begin(), net.dims(in[0])[0]);
  return net.reshape(in[0], target);
}

bool draw_flatten(Chooser& choose, const Operands&, LayerSpec& spec) {
  spec.set("data_format", choose.one_of<const char*>({"none", "channels_last", "channels_first"}));
  return true;
}

// Channels that come first go last before.
ValueId build_flatten(Net& net, const LayerSpec& spec, const Values& in) {
  const bool first = spec.word("data_format") == "channels_first";
  const ValueId x = first ? net.move_axis(in[0], 1, net.rank(in[0]) - 1) : in[0];
  const Dims dims = net.dims(x);
  return net.reshape(x, {dims[0], element_count(dims) / dims[0]});
}

bool draw_repeat(Chooser& choose, const Operands&, LayerSpec& spec) {
  spec.set("n", choose.size());
  return true;
}

ValueId build_repeat(Net& net, const LayerSpec& spec, const Values& in) {
  const Dims dims = net.dims(in[0]);
  return net.add("Expand", {net.reshape(in[0], {dims[0], 1, dims[1]}), net.ints({dims[0], spec.number("n"), dims[1]})});
}

bool draw_permute(Chooser& choose, const Operands& in, LayerSpec& spec) {
  Ints order = choose.permutation(in[0].size() - 1);
  for (std::int64_t& axis : order) ++axis;
  spec.set("dims", order);
  return true;
}

ValueId build_permute(Net& net, const LayerSpec& spec, const Values& in) {
  Ints perm = spec.list("dims");
  perm.insert(perm.begin(), 0);
  return net.transpose(in[0], perm);
}

}  // namespace

std::vector<LayerKind> shape_layers() {
  return {{.name = "embedding", .least_rank = 2, .most_rank = 2, .draw = draw_embedding, .build = build_embedding},
          {.name = "reshape", .least_rank = 2, .draw = draw_reshape, .build = build_reshape},
          {.name = "flatten", .least_rank = 3, .draw = draw_flatten, .build = build_flatten},
          {.name = "repeat_vector", .least_rank = 2, .most_rank = 2, .draw = draw_repeat, .build = build_repeat},
          {.name = "permute", .least_rank = 2, .draw = draw_permute, .build = build_permute}};
}

}  // namespace finity::muffin
