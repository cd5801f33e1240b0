// Patterns that optimisers rewrite, each with something changed by chance: an axis, a constant, an element type, a
// second user. A rewrite that looks at too little then changes the result.
#include <algorithm>
#include <cmath>
#include <functional>

#include "fuzz/generate.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

using Name = std::string;
using Ints = std::vector<std::int64_t>;

Attrs attrs_of(std::initializer_list<std::pair<const char*, Attr>> list) {
  Attrs attrs;
  for (const auto& [name, value] : list) attrs.set(name, value);
  return attrs;
}

// What patterns share: a failed step makes everything behind it empty.
class Pattern {
 public:
  Pattern(Rng& rng, int opset, std::string origin) : g(rng, opset, std::move(origin)) {
    dtype = g.chance(75) ? DType::float32 : g.chance(60) ? DType::float64 : DType::float16;
  }

  Name op(std::string_view name, std::vector<Name> inputs, Attrs attrs = {}) {
    for (const Name& input : inputs) {
      if (input == kFailed) return kFailed;
    }
    const std::vector<Name> made = g.add(name, std::move(inputs), std::move(attrs));
    return made.empty() ? Name(kFailed) : made.front();
  }
  // A constant of one number, with now and then another number, form, or as an input.
  Name number(double value) {
    if (g.chance(8)) value *= g.chance(50) ? 2 : -1;
    Dims dims = g.chance(70) ? Dims{} : g.chance(70) ? Dims{1} : Dims{1, 1};
    Tensor tensor = from_elements<double>(dtype, std::move(dims), std::vector<double>{value});
    return g.chance(92) ? g.add_constant(std::move(tensor)) : g.add_input(std::move(tensor));
  }
  Name weights(Dims dims) {
    Tensor tensor = g.draw(dtype, std::move(dims), g.chance(60) ? ValueClass::normal : ValueClass::integers);
    return g.chance(85) ? g.add_constant(std::move(tensor)) : g.add_input(std::move(tensor));
  }
  Name input(Dims dims) { return g.add_input(g.draw(dtype, std::move(dims))); }
  // Two operands in one of the two orders.
  Name both(std::string_view name, const Name& a, const Name& b) {
    return g.chance(50) ? op(name, {a, b}) : op(name, {b, a});
  }
  Name reduce(std::string_view name, const Name& x, Ints axes, std::int64_t keep) {
    const int first = name == "ReduceSum" ? 13 : 18;
    Attrs attrs = attrs_of({{"keepdims", keep}});
    if (g.opset() >= first) return op(name, {x, g.add_constant(Tensor::vector_of(axes))}, attrs);
    // Axes count from the end only since operator set 11.
    const auto rank = static_cast<std::int64_t>(x == kFailed ? 0 : g.value(x).rank());
    for (std::int64_t& axis : axes) axis = g.opset() < 11 && axis < 0 ? axis + rank : axis;
    attrs.set("axes", axes);
    return op(name, {x}, attrs);
  }
  Dims some_dims(std::int64_t rank) {
    Dims dims;
    const std::int64_t square = g.chance(50) ? g.between(1, 5) : -1;
    for (std::int64_t i = 0; i < rank; ++i) dims.push_back(square > 0 ? square : g.between(1, 6));
    return dims;
  }
  // Something behind the pattern, so that it is not always the end of the graph.
  void tail(const Name& x) {
    if (x == kFailed || !g.chance(30)) return;
    constexpr std::string_view kTails[] = {"Relu", "Neg", "Identity", "Sigmoid", "Abs"};
    op(kTails[g.rng().below(std::size(kTails))], {x});
  }

  static constexpr const char* kFailed = "(failed)";
  Grower g;
  DType dtype = DType::float32;
};

void layer_norm(Pattern& p) {
  const std::int64_t rank = p.g.between(2, 3);
  const Dims dims = p.some_dims(rank);
  const Name x = p.input(dims);
  const Ints axes = p.g.chance(75) ? Ints{-1} : Ints{p.g.between(0, rank - 1)};
  const std::int64_t keep = p.g.chance(80) ? 1 : 0;
  const Name centred = p.op("Sub", {x, p.reduce("ReduceMean", x, axes, keep)});
  const Name square = p.g.chance(60) ? p.op("Pow", {centred, p.number(2)}) : p.op("Mul", {centred, centred});
  const Name variance =
      p.reduce("ReduceMean", square, p.g.chance(90) ? axes : Ints{0}, p.g.chance(90) ? keep : 1 - keep);
  const Name deviation = p.op("Sqrt", {p.both("Add", variance, p.number(1e-2))});
  const Name normal = p.op("Div", {centred, deviation});
  const Dims each = p.g.chance(80) ? Dims{dims.back()} : p.some_dims(1);
  const Name scaled = p.both("Mul", normal, p.weights(each));
  p.tail(p.both("Add", scaled, p.weights(each)));
}

void rms_norm(Pattern& p) {
  const Dims dims = p.some_dims(p.g.between(2, 3));
  const Name x = p.input(dims);
  const Name square = p.op("Pow", {x, p.number(2)});
  const Name mean = p.reduce("ReduceMean", square, {p.g.chance(80) ? -1 : 0}, p.g.chance(80) ? 1 : 0);
  const Name root = p.op("Sqrt", {p.both("Add", mean, p.number(1e-2))});
  const Name normal = p.g.chance(50) ? p.op("Div", {x, root}) : p.both("Mul", x, p.op("Reciprocal", {root}));
  p.tail(p.both("Mul", normal, p.weights({dims.back()})));
}

void gelu(Pattern& p) {
  const Name x = p.input(p.some_dims(p.g.between(1, 3)));
  const Name inner = p.op("Erf", {p.op("Div", {x, p.number(std::sqrt(2.0))})});
  const Name plus = p.both("Add", inner, p.number(1));
  if (p.g.chance(50)) p.tail(p.both("Mul", p.both("Mul", x, plus), p.number(0.5)));
  else p.tail(p.both("Mul", plus, p.both("Mul", x, p.number(0.5))));
}

void fast_gelu(Pattern& p) {
  const Name x = p.input(p.some_dims(p.g.between(1, 3)));
  const Name cube = p.both("Mul", p.op("Pow", {x, p.number(3)}), p.number(0.044715));
  const Name inner = p.op("Tanh", {p.both("Mul", p.both("Add", x, cube), p.number(0.7978845834732056))});
  p.tail(p.both("Mul", p.both("Add", inner, p.number(1)), p.both("Mul", x, p.number(0.5))));
}

void gates(Pattern& p) {
  const Name x = p.input(p.some_dims(p.g.between(1, 3)));
  const Name inner = p.g.chance(60) ? p.both("Mul", x, p.number(p.g.chance(70) ? 1.702 : 1)) : x;
  constexpr std::string_view kGates[] = {"Sigmoid", "Sigmoid", "HardSigmoid", "Tanh", "Softplus"};
  const Name gate = p.op(kGates[p.g.rng().below(std::size(kGates))], {inner});
  p.tail(p.both("Mul", x, gate));
}

void clips(Pattern& p) {
  if (p.g.chance(40)) p.dtype = DType::float64;
  Name x = p.input(p.some_dims(p.g.between(1, 3)));
  for (std::int64_t i = p.g.between(2, 3); i > 0; --i) {
    const bool clip = p.g.chance(60) && p.g.opset() >= 11;
    const auto bound = [&](double value) {
      return p.g.add_constant(from_elements<double>(p.dtype, {}, std::vector<double>{value}));
    };
    x = clip ? p.op("Clip", {x, p.g.chance(80) ? bound(-0.5) : Name(), bound(static_cast<double>(p.g.between(0, 6)))})
             : p.op("Relu", {x});
  }
  p.tail(x);
}

void casts(Pattern& p) {
  constexpr DType kTypes[] = {DType::float32, DType::float64, DType::int32,   DType::int64, DType::uint8,
                              DType::int8,    DType::boolean, DType::float16, DType::int16, DType::uint16};
  p.dtype = kTypes[p.g.rng().below(std::size(kTypes))];
  Tensor tensor =
      p.g.draw(p.dtype, p.some_dims(p.g.between(1, 2)), p.g.chance(50) ? ValueClass::wide : ValueClass::normal);
  Name x = p.g.add_input(std::move(tensor));
  for (std::int64_t i = p.g.between(2, 3); i > 0; --i) {
    const bool back = p.g.chance(30);
    const DType to = back ? p.dtype : kTypes[p.g.rng().below(std::size(kTypes))];
    x = p.op("Cast", {x}, attrs_of({{"to", static_cast<std::int64_t>(to)}}));
  }
}

void pad_window(Pattern& p) {
  p.dtype = p.g.chance(90) ? DType::float32 : DType::float64;
  const std::int64_t space = p.g.between(1, 2);
  Dims dims = {1, p.g.between(1, 3)};
  for (std::int64_t i = 0; i < space; ++i) dims.push_back(p.g.between(3, 6));
  const Name x = p.input(dims);
  Ints pads;
  for (std::int64_t i = 0; i < 2 * (space + 2); ++i) {
    const bool spatial = i % (space + 2) >= 2;
    pads.push_back(spatial || p.g.chance(5) ? p.g.between(p.g.chance(5) ? -1 : 0, 2) : 0);
  }
  Name padded;
  if (p.g.opset() < 11) {
    padded = p.op("Pad", {x}, attrs_of({{"pads", pads}, {"value", p.g.chance(80) ? 0.0F : 1.0F}}));
  } else {
    std::vector<Name> inputs = {x, p.g.add_constant(Tensor::vector_of(pads))};
    if (p.g.chance(50))
      inputs.push_back(
          p.g.add_constant(from_elements<double>(p.dtype, {}, std::vector<double>{p.g.chance(70) ? 0.0 : 1.0})));
    constexpr const char* kModes[] = {"constant", "constant", "constant", "reflect", "edge"};
    padded = p.op("Pad", inputs, attrs_of({{"mode", std::string(kModes[p.g.rng().below(5)])}}));
  }
  if (padded == Pattern::kFailed) return;
  constexpr std::string_view kWindows[] = {"MaxPool",     "AveragePool", "Conv",         "MaxPool",
                                           "AveragePool", "LpPool",      "ConvTranspose"};
  p.g.add(*find_op("", kWindows[p.g.rng().below(std::size(kWindows))]), padded);
}

// Windows of every form: rows and columns, long steps, channels by themselves or in groups, each way to pad.
void windows(Pattern& p) {
  p.dtype = p.g.chance(90) ? DType::float32 : DType::float64;
  constexpr std::string_view kOps[] = {"Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"};
  const std::string_view op = kOps[p.g.rng().below(std::size(kOps))];
  const std::int64_t space = p.g.chance(70) ? 2 : p.g.between(1, 3), channels = p.g.between(1, 4);
  Dims dims = {p.g.between(1, 2), channels};
  for (std::int64_t i = 0; i < space; ++i) dims.push_back(p.g.between(1, 7));
  Ints kernel, strides, dilations, pads;
  const std::int64_t step = p.g.between(1, 3), thin = p.g.chance(50) ? p.g.between(0, space - 1) : -1;
  for (std::int64_t i = 0; i < space; ++i) {
    kernel.push_back(i == thin ? 1 : p.g.between(1, 4));
    strides.push_back(p.g.chance(70) ? step : p.g.between(1, 3));
    dilations.push_back(p.g.between(1, 2));
  }
  for (std::int64_t i = 0; i < 2 * space; ++i) {
    // A pool's window in the margin alone has no mean.
    const std::int64_t most = kernel[static_cast<std::size_t>(i % space)] - 1;
    pads.push_back(p.g.between(0, op.starts_with("Conv") ? 2 : std::min<std::int64_t>(most, 2)));
  }
  Attrs attrs = attrs_of({{"kernel_shape", kernel}, {"strides", strides}});
  constexpr const char* kModes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  if (p.g.chance(50)) attrs.set("auto_pad", std::string(kModes[p.g.rng().below(3)]));
  else if (p.g.chance(60)) attrs.set("pads", pads);
  if (p.g.chance(25)) attrs.set("dilations", dilations);
  std::vector<Name> inputs = {p.input(dims)};
  if (op.starts_with("Conv")) {
    const std::int64_t group = p.g.chance(50) ? channels : 1, each = p.g.between(1, 2);
    Dims weights = op == "Conv" ? Dims{group * each, channels / group} : Dims{channels, each};
    weights.insert(weights.end(), kernel.begin(), kernel.end());
    inputs.push_back(p.weights(weights));
    if (group > 1) attrs.set("group", group);
  }
  p.tail(p.op(op, inputs, attrs));
}

void window_then(Pattern& p) {
  p.dtype = DType::float32;
  const Name x = p.input({1, p.g.between(1, 4), p.g.between(2, 6), p.g.between(2, 6)});
  constexpr std::string_view kFirst[] = {"Conv", "Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"};
  std::vector<Name> made = p.g.add(*find_op("", kFirst[p.g.rng().below(std::size(kFirst))]), x);
  constexpr std::string_view kNext[] = {"BatchNormalization", "Relu", "Add", "Mul", "LeakyRelu", "Clip",     "Sigmoid",
                                        "HardSigmoid",        "Tanh", "Div", "Sub", "Pad",       "Transpose"};
  for (std::int64_t i = p.g.between(1, 3); i > 0 && !made.empty(); --i) {
    const Name from = p.g.chance(85) ? made.front() : x;
    const std::vector<Name> next = p.g.add(*find_op("", kNext[p.g.rng().below(std::size(kNext))]), from);
    if (!next.empty()) made = next;
  }
}

// Operands of every form behind a layer: what is one number per channel can be merged into weights, what only looks
// like it cannot.
void layer_and_operands(Pattern& p) {
  p.dtype = p.g.chance(90) ? DType::float32 : DType::float64;
  constexpr std::string_view kLayers[] = {"Conv", "Conv",    "ConvTranspose",         "MatMul",  "Gemm",
                                          "Conv", "MaxPool", "BatchNormalization",    "Softmax", "AveragePool",
                                          "Relu", "MatMul",  "InstanceNormalization", "Pad",     "GlobalAveragePool"};
  const std::string_view layer = kLayers[p.g.rng().below(std::size(kLayers))];
  const std::int64_t rank = layer == "Gemm" ? 2 : layer == "MatMul" ? p.g.between(2, 4) : p.g.chance(80) ? 4 : 3;
  std::vector<Name> made = p.g.add(*find_op("", layer), p.input(p.some_dims(rank)));
  if (made.empty()) return;
  Name x = made.front();
  constexpr std::string_view kOps[] = {"Add", "Add", "Mul", "Mul", "Sub", "Div", "Max", "Min", "Pow", "PRelu"};
  for (std::int64_t i = p.g.between(1, 2); i > 0 && x != Pattern::kFailed; --i) {
    const std::string_view op = kOps[p.g.rng().below(std::size(kOps))];
    Dims dims = p.g.broadcastable(p.g.value(x).dims());
    // Slopes are repeated to their operand, never the other way round.
    if (op == "PRelu" && dims.size() > p.g.value(x).rank()) dims.erase(dims.begin());
    const Name operand = p.weights(dims);
    x = op == "PRelu" ? p.op(op, {x, operand}) : p.both(op, x, operand);
  }
  p.tail(x);
}

void products(Pattern& p) {
  const Dims dims = p.some_dims(p.g.between(2, 4));
  Name x = p.input(dims);
  const std::int64_t rank = static_cast<std::int64_t>(dims.size());
  const auto permuted = [&](const Name& value, std::int64_t axes) {
    Ints perm;
    for (std::int64_t i = 0; i < axes; ++i) perm.push_back(i);
    if (axes > 1 && p.g.chance(60))
      std::swap(perm[static_cast<std::size_t>(axes - 1)], perm[static_cast<std::size_t>(axes - 2)]);
    else if (axes > 1 && p.g.chance(50)) std::swap(perm[0], perm[p.g.rng().below(static_cast<std::size_t>(axes))]);
    return p.op("Transpose", {value}, attrs_of({{"perm", perm}}));
  };
  if (p.g.chance(60)) x = permuted(x, rank);
  if (x != Pattern::kFailed && p.g.chance(40)) x = p.both(p.g.chance(60) ? "Mul" : "Div", x, p.number(2));
  if (x == Pattern::kFailed) return;
  const std::int64_t inner = p.g.value(x).dims().back();
  Name y = p.weights(p.g.chance(50) ? Dims{inner, inner} : Dims{inner, p.g.between(1, 5)});
  if (p.g.chance(30)) y = permuted(y, 2);
  const bool gemm = rank == 2 && p.g.chance(60);
  std::vector<Name> inputs = {x, y};
  Name product = gemm ? p.op("Gemm", inputs,
                             attrs_of({{"transB", p.g.between(0, 1)},
                                       {"transA", p.g.between(0, 1)},
                                       {"alpha", p.g.chance(60) ? 1.0F : 0.5F}}))
                      : p.op("MatMul", inputs);
  if (product == Pattern::kFailed) return;
  constexpr std::string_view kNext[] = {"Add",     "Add",    "BatchNormalization", "Relu", "Mul", "Div", "Transpose",
                                        "Softmax", "Reshape"};
  std::vector<Name> made = {product};
  for (std::int64_t i = p.g.between(0, 2); i > 0 && !made.empty(); --i)
    made = p.g.add(*find_op("", kNext[p.g.rng().below(std::size(kNext))]), made.front());
}

void arithmetic(Pattern& p) {
  constexpr DType kTypes[] = {DType::float32, DType::int32, DType::int64, DType::float64, DType::int32};
  p.dtype = kTypes[p.g.rng().below(std::size(kTypes))];
  const Dims dims = p.some_dims(p.g.between(1, 3));
  const Name x = p.g.add_input(p.g.draw(p.dtype, dims, p.g.chance(50) ? ValueClass::positive : ValueClass::integers));
  const Name y = p.g.chance(50) ? p.g.add_input(p.g.draw(p.dtype, dims, ValueClass::positive))
                                : p.number(static_cast<double>(p.g.between(1, 3)));
  constexpr std::string_view kOps[] = {"Mul", "Div", "Add", "Sub", "Mul", "Div", "Max", "Min"};
  const auto draw = [&] { return kOps[p.g.rng().below(std::size(kOps))]; };
  const Name one = p.number(p.g.chance(60) ? 1 : p.g.chance(50) ? 0 : 2);
  const Name a = p.both(draw(), p.g.chance(50) ? one : x, y);
  if (a == Pattern::kFailed) return;
  const Name b = p.both(draw(), a, p.g.chance(60) ? x : one);
  if (b != Pattern::kFailed && p.g.chance(40)) p.both(draw(), b, p.g.chance(50) ? y : one);
}

void softmaxes(Pattern& p) {
  const std::int64_t rank = p.g.between(2, 4);
  const Name x = p.input(p.some_dims(rank));
  const Ints axes = {p.g.chance(60) ? -1 : p.g.between(0, rank - 1)};
  const Name shifted = p.op("Sub", {x, p.reduce("ReduceMax", x, axes, 1)});
  const Name powers = p.op("Exp", {shifted});
  p.tail(p.op("Div", {powers, p.reduce("ReduceSum", powers, p.g.chance(90) ? axes : Ints{0}, 1)}));
}

void movements(Pattern& p) {
  Name x = p.input(p.some_dims(p.g.between(1, 4)));
  constexpr std::string_view kMoves[] = {"Transpose", "Reshape",   "Squeeze",   "Unsqueeze", "Flatten", "Slice",
                                         "Split",     "Concat",    "Expand",    "Identity",  "Gather",  "Tile",
                                         "Pad",       "Transpose", "Unsqueeze", "Cast"};
  constexpr std::string_view kBetween[] = {"Add",       "Mul",    "Relu", "Softmax", "ReduceMean",
                                           "ReduceSum", "MatMul", "Max",  "ArgMax"};
  for (std::int64_t i = p.g.between(2, 4); i > 0; --i) {
    const bool move = p.g.chance(70);
    const std::string_view name =
        move ? kMoves[p.g.rng().below(std::size(kMoves))] : kBetween[p.g.rng().below(std::size(kBetween))];
    const std::vector<Name> made = p.g.add(*find_op("", name), x);
    if (!made.empty()) x = made.front();
  }
}

// Shapes that are computed from shapes, as exporters write them: what asks for a size is no constant.
void computed_shapes(Pattern& p) {
  const std::int64_t rank = p.g.between(2, 4);
  const Dims dims = p.some_dims(rank);
  const Name x = p.input(dims);
  const Name shape = p.op("Shape", {p.g.chance(70) ? x : p.op("Relu", {x})});
  const auto ints = [&](Ints values) { return p.g.add_constant(Tensor::vector_of(values)); };
  const auto part = [&](std::int64_t axis) {
    if (p.g.chance(30) && p.g.opset() >= 10) return p.op("Slice", {shape, ints({axis}), ints({axis + 1}), ints({0})});
    if (p.g.chance(40) && p.g.opset() >= 13)
      return p.op("Unsqueeze", {p.op("Gather", {shape, p.g.add_constant(Tensor::scalar(axis))}), ints({0})});
    return p.op("Gather", {shape, ints({p.g.chance(30) ? axis - rank : axis})});
  };
  std::vector<Name> parts;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (p.g.chance(30)) parts.push_back(ints({p.g.chance(60) ? -1 : p.g.between(0, 2)}));
    else parts.push_back(part(p.g.chance(80) ? axis : p.g.between(0, rank - 1)));
    if (p.g.chance(20)) parts.back() = p.op("Mul", {parts.back(), ints({p.g.between(1, 2)})});
    if (p.g.chance(15)) break;
  }
  Name asked = parts.size() == 1 ? parts.front() : p.op("Concat", parts, attrs_of({{"axis", std::int64_t{0}}}));
  if (p.g.chance(25)) asked = p.op("Reshape", {asked, ints({-1})});
  constexpr std::string_view kUsers[] = {"Reshape", "Reshape", "Reshape", "Expand", "Tile"};
  const Name made = p.op(kUsers[p.g.rng().below(std::size(kUsers))], {x, asked});
  if (made != Pattern::kFailed && p.g.chance(30)) p.op("Reshape", {made, ints({0, -1})});
  p.tail(made);
}

// Codes and back around ops, as quantised models have them: an optimiser may compute with the codes.
void codes(Pattern& p) {
  p.dtype = DType::float32;
  const DType code = p.g.chance(60) ? DType::uint8 : DType::int8;
  constexpr double kScales[] = {0.5, 0.25, 0.125, 0.1, 0.03};
  const auto scale = [&] {
    return p.g.add_constant(
        from_elements<double>(DType::float32, {}, std::vector<double>{kScales[p.g.rng().below(std::size(kScales))]}));
  };
  const auto zero = [&] {
    return p.g.add_constant(p.g.draw(code, {}, p.g.chance(50) ? ValueClass::positive : ValueClass::ends));
  };
  Name s = scale(), z = zero();
  const auto through = [&](const Name& x) {
    if (p.g.chance(40)) s = scale(), z = zero();
    return p.op("DequantizeLinear", {p.op("QuantizeLinear", {x, s, z}), s, z});
  };
  constexpr std::string_view kOps[] = {"Conv",
                                       "MatMul",
                                       "Add",
                                       "Mul",
                                       "MaxPool",
                                       "AveragePool",
                                       "Relu",
                                       "Reshape",
                                       "Transpose",
                                       "Concat",
                                       "Resize",
                                       "Sigmoid",
                                       "Softmax",
                                       "Clip",
                                       "Pad",
                                       "Squeeze",
                                       "Slice",
                                       "LeakyRelu",
                                       "GlobalAveragePool",
                                       "Gemm",
                                       "Where",
                                       "Split",
                                       "Gather",
                                       "ReduceMean",
                                       "Unsqueeze",
                                       "Max"};
  const std::string_view op = kOps[p.g.rng().below(std::size(kOps))];
  Name x = through(p.input(p.some_dims(op == "Gemm" ? 2 : p.g.chance(60) ? 4 : p.g.between(2, 3))));
  for (std::int64_t i = p.g.between(1, 2); i > 0 && x != Pattern::kFailed; --i) {
    const std::vector<Name> made = p.g.add(*find_op("", op), x);
    x = made.empty()                                                          ? Pattern::kFailed
        : p.g.value(made.front()).dtype() == DType::float32 && p.g.chance(85) ? through(made.front())
                                                                              : made.front();
  }
  p.tail(x);
}

struct Entry {
  std::string_view name;
  void (*draw)(Pattern&);
};
constexpr Entry kPatterns[] = {{"layer norm", layer_norm},
                               {"rms norm", rms_norm},
                               {"gelu", gelu},
                               {"fast gelu", fast_gelu},
                               {"gate", gates},
                               {"clips", clips},
                               {"casts", casts},
                               {"pad and window", pad_window},
                               {"pad and window", pad_window},
                               {"windows", windows},
                               {"windows", windows},
                               {"window and more", window_then},
                               {"window and more", window_then},
                               {"layer and operands", layer_and_operands},
                               {"layer and operands", layer_and_operands},
                               {"layer and operands", layer_and_operands},
                               {"products", products},
                               {"products", products},
                               {"arithmetic", arithmetic},
                               {"arithmetic", arithmetic},
                               {"softmax", softmaxes},
                               {"computed shapes", computed_shapes},
                               {"codes", codes},
                               {"movements", movements}};

}  // namespace

Sample draw_pattern(Rng& rng, int opset) {
  const Entry& entry = kPatterns[rng.below(std::size(kPatterns))];
  Pattern pattern(rng, opset, "pattern " + std::string(entry.name));
  entry.draw(pattern);
  return std::move(pattern.g).finish();
}

}  // namespace finity::fuzz
