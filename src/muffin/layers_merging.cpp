// Layers with several operands.
#include <algorithm>

#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

bool draw_nothing(Chooser&, const Operands&, LayerSpec&) { return true; }

// Along one axis of several operands that agree in the others.
bool draw_concatenate(Chooser& choose, const Operands& in, LayerSpec& spec) {
  Ints possible;
  for (std::size_t axis = 1; axis < in[0].size(); ++axis) {
    const bool fits = std::ranges::all_of(in, [&](const Dims& dims) {
      if (dims.size() != in[0].size()) return false;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (i != axis && dims[i] != in[0][i]) return false;
      }
      return true;
    });
    if (fits) possible.push_back(static_cast<std::int64_t>(axis));
  }
  if (possible.empty()) return false;
  spec.set("axis", possible[choose.rng().below(possible.size())]);
  return true;
}
ValueId build_concatenate(Net& net, const LayerSpec& spec, const Values& in) {
  return net.concat(in, spec.number("axis"));
}

ValueId variadic(Net& net, const Values& in, const char* op) { return net.add(op, in); }
ValueId build_average(Net& net, const LayerSpec&, const Values& in) { return variadic(net, in, "Mean"); }
ValueId build_maximum(Net& net, const LayerSpec&, const Values& in) { return variadic(net, in, "Max"); }
ValueId build_minimum(Net& net, const LayerSpec&, const Values& in) { return variadic(net, in, "Min"); }
ValueId build_add(Net& net, const LayerSpec&, const Values& in) {
  return variadic(net, in, in.size() == 2 ? "Add" : "Sum");
}
ValueId build_subtract(Net& net, const LayerSpec&, const Values& in) { return net.add("Sub", in); }
ValueId build_multiply(Net& net, const LayerSpec&, const Values& in) {
  ValueId y = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) y = net.add("Mul", {y, in[i]});
  return y;
}

// Axes of equal length, one of each operand.
bool draw_dot(Chooser& choose, const Operands& in, LayerSpec& spec) {
  std::vector<Ints> possible;
  for (std::size_t a = 1; a < in[0].size(); ++a) {
    for (std::size_t b = 1; b < in[1].size(); ++b) {
      if (in[0][a] == in[1][b]) possible.push_back({static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)});
    }
  }
  if (possible.empty()) return false;
  spec.set("axes", possible[choose.rng().below(possible.size())]);
  spec.set("normalize", std::int64_t{choose.coin()});
  return true;
}

// Of length one along the axis.
ValueId normalised(Net& net, ValueId x, std::int64_t axis) {
  const ValueId squares = net.sum(net.add("Mul", {x, x}), {axis}, true);
  return net.add("Div", {x, net.add("Sqrt", {net.add("Max", {squares, net.number(1e-12)})})});
}

ValueId build_dot(Net& net, const LayerSpec& spec, const Values& in) {
  const Ints axes = spec.list("axes");
  Values parts;
  Dims result = {net.dims(in[0])[0]};
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId x = spec.flag("normalize") ? normalised(net, in[i], axes[i]) : in[i];
    Dims rest = net.dims(x);
    const std::int64_t common = rest[static_cast<std::size_t>(axes[i])];
    rest.erase(rest.begin() + axes[i]);
    rest.erase(rest.begin());
    result.insert(result.end(), rest.begin(), rest.end());
    const ValueId last = net.move_axis(x, axes[i], i == 0 ? net.rank(x) - 1 : 1);
    const std::int64_t others = element_count(rest);
    parts.push_back(net.reshape(last, i == 0 ? Dims{result[0], others, common} : Dims{result[0], common, others}));
  }
  if (result.size() == 1) result.push_back(1);
  return net.reshape(net.add("MatMul", parts), result);
}

LayerKind alike(std::string_view name, ValueId (*build)(Net&, const LayerSpec&, const Values&), bool two = false) {
  return {.name = name,
          .least_rank = 2,
          .draw = draw_nothing,
          .build = build,
          .merges = true,
          .two_only = two,
          .same_shape = true};
}

}  // namespace

std::vector<LayerKind> merging_layers() {
  return {
      {.name = "concatenate", .least_rank = 2, .draw = draw_concatenate, .build = build_concatenate, .merges = true},
      alike("average", build_average),
      alike("maximum", build_maximum),
      alike("minimum", build_minimum),
      alike("add", build_add),
      alike("subtract", build_subtract, true),
      alike("multiply", build_multiply),
      {.name = "dot", .least_rank = 2, .draw = draw_dot, .build = build_dot, .merges = true, .two_only = true}};
}

}  // namespace finity::muffin
