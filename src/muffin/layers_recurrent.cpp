// Recurrent layers, and the two layers that wrap others. Short sequences are written step by step now and then (Keras'
// "unroll"), which also allows activations that ONNX's recurrent ops lack; the others are one op.
#include <algorithm>

#include "base/error.h"
#include "muffin/layers.h"

namespace finity::muffin {

namespace {

using Operands = std::vector<Dims>;
using Values = std::vector<ValueId>;

// Steps: of what is drawn, and of what is written step by step for libraries without the op.
constexpr std::int64_t kMostUnrolled = 8, kMostWritten = 50;

bool draw_recurrent(Chooser& choose, const Operands& in, LayerSpec& spec) {
  const bool short_enough = in[0][1] <= kMostUnrolled;
  spec.set("unroll", std::int64_t{short_enough && choose.coin()});
  const bool plain = !spec.flag("unroll");
  spec.set("units", choose.size());
  spec.set("activation", choose.activation(plain));
  if (spec.kind != "simpleRNN") spec.set("recurrent_activation", choose.activation(plain));
  for (const char* name : {"use_bias", "return_sequences", "go_backwards"}) spec.set(name, std::int64_t{choose.coin()});
  if (spec.kind == "GRU") spec.set("reset_after", std::int64_t{choose.coin()});
  return true;
}

bool draw_conv_lstm(Chooser& choose, const Operands& in, LayerSpec& spec) {
  if (in[0][1] > kMostUnrolled) return false;
  const std::int64_t least = std::min(in[0][2], in[0][3]), kernel = choose.between(1, least), limit = least / kernel;
  const bool dilated = choose.coin();
  spec.set("kernel", kernel);
  spec.set("strides", dilated ? 1 : choose.between(1, limit));
  spec.set("dilation", dilated ? choose.between(1, limit) : 1);
  spec.set("padding", choose.one_of<const char*>({"valid", "same"}));
  spec.set("filters", choose.size());
  spec.set("activation", choose.activation());
  spec.set("recurrent_activation", choose.activation());
  for (const char* name : {"use_bias", "return_sequences"}) spec.set(name, std::int64_t{choose.coin()});
  return true;
}

// What libraries call the parts of a recurrent op.
struct Recurrent {
  const char* op;
  std::int64_t gates;
  std::int64_t activations;
};
Recurrent recurrent(const std::string& kind) {
  return kind == "LSTM" ? Recurrent{"LSTM", 4, 3} : kind == "GRU" ? Recurrent{"GRU", 3, 2} : Recurrent{"RNN", 1, 1};
}

std::string onnx_activation(const std::string& name) {
  for (const auto& [keras, onnx] : {std::pair<std::string_view, const char*>{"relu", "Relu"},
                                    {"sigmoid", "Sigmoid"},
                                    {"softplus", "Softplus"},
                                    {"tanh", "Tanh"},
                                    {"elu", "Elu"},
                                    {"linear", "Affine"}}) {
    if (name == keras) return onnx;
  }
  throw Error("recurrent ops have no activation '" + name + "'");
}

// The products' weights: rows by features or units, columns by gates in ONNX's order. Both ways of writing a layer draw
// the same ones.
struct Products {
  Products(Net& net, const LayerSpec& spec, std::int64_t features) {
    const std::int64_t units = spec.number("units"), columns = recurrent(spec.kind).gates * units;
    of_x = net.weight({features, columns}, features + units);
    of_h = net.weight({units, columns}, features + units);
    if (spec.flag("use_bias")) bias = net.weight({columns}, features + units);
  }
  ValueId of_x = {}, of_h = {}, bias = {};
};

std::vector<std::string> op_activations(const LayerSpec& spec) {
  const Recurrent kind = recurrent(spec.kind);
  std::vector<std::string> names;
  if (kind.gates > 1) names.push_back(onnx_activation(spec.word("recurrent_activation")));
  while (static_cast<std::int64_t>(names.size()) < kind.activations)
    names.push_back(onnx_activation(spec.word("activation")));
  return names;
}

// Time first, one direction.
ValueId as_op(Net& net, const LayerSpec& spec, ValueId x) {
  const Recurrent kind = recurrent(spec.kind);
  const Dims dims = net.dims(x);
  const std::int64_t units = spec.number("units"), rows = kind.gates * units;
  const Products products(net, spec, dims[2]);
  const auto turned = [&](ValueId weight) {
    return net.reshape(net.transpose(weight, {1, 0}), {1, rows, net.dims(weight)[0]});
  };
  Values operands = {net.transpose(x, {1, 0, 2}), turned(products.of_x), turned(products.of_h)};
  if (products.bias.valid())
    operands.push_back(net.reshape(net.concat({products.bias, net.filled({rows}, 0)}, 0), {1, 2 * rows}));
  const std::vector<std::string> names = op_activations(spec);
  std::vector<Attribute> attrs = {{"hidden_size", units}, {"activations", names}};
  if (std::ranges::find(names, "Affine") != names.end() || std::ranges::find(names, "Elu") != names.end()) {
    // Affine and Elu take a factor, the others ignore it.
    attrs.emplace_back("activation_alpha", std::vector<float>(names.size(), 1));
    attrs.emplace_back("activation_beta", std::vector<float>(names.size(), 0));
  }
  if (spec.kind == "GRU") attrs.emplace_back("linear_before_reset", spec.number("reset_after"));
  const Values y = net.add_several(kind.op, operands, attrs, 2);
  return spec.flag("return_sequences") ? net.transpose(net.reshape(y[0], {dims[1], dims[0], units}), {1, 0, 2})
                                       : net.reshape(y[1], {dims[0], units});
}

// One step of a recurrent cell on x [batch, features].
class Cell {
 public:
  Cell(Net& net, const LayerSpec& spec, std::int64_t features)
      : net_(net), spec_(spec), units_(spec.number("units")), products_(net, spec, features) {}

  // The next state; `cell` is LSTM's memory.
  ValueId step(ValueId x, ValueId h, ValueId& cell) {
    ValueId given = net_.add("MatMul", {x, products_.of_x});
    if (products_.bias.valid()) given = net_.add("Add", {given, products_.bias});
    const ValueId kept = net_.add("MatMul", {h, products_.of_h});
    if (spec_.kind == "GRU") return gru(given, kept, h);
    const ValueId all = net_.add("Add", {given, kept});
    if (spec_.kind == "simpleRNN") return act(all);
    const ValueId input = gate(part(all, 0)), output = gate(part(all, 1)), forget = gate(part(all, 2));
    cell = net_.add("Add", {net_.add("Mul", {forget, cell}), net_.add("Mul", {input, act(part(all, 3))})});
    return net_.add("Mul", {output, act(cell)});
  }

 private:
  ValueId gru(ValueId given, ValueId kept, ValueId h) {
    const ValueId update = gate(net_.add("Add", {part(given, 0), part(kept, 0)}));
    const ValueId reset = gate(net_.add("Add", {part(given, 1), part(kept, 1)}));
    ValueId inner = net_.add("Mul", {reset, part(kept, 2)});
    if (!spec_.flag("reset_after"))
      inner = net_.add("MatMul", {net_.add("Mul", {reset, h}), net_.slice(products_.of_h, 1, 2 * units_, 3 * units_)});
    const ValueId candidate = act(net_.add("Add", {part(given, 2), inner}));
    const ValueId rest = net_.add("Mul", {net_.add("Sub", {net_.number(1), update}), candidate});
    return net_.add("Add", {net_.add("Mul", {update, h}), rest});
  }
  ValueId part(ValueId x, std::int64_t i) { return net_.slice(x, 1, i * units_, (i + 1) * units_); }
  ValueId gate(ValueId x) { return net_.activation(x, spec_.word("recurrent_activation")); }
  ValueId act(ValueId x) { return net_.activation(x, spec_.word("activation")); }

  Net& net_;
  const LayerSpec& spec_;
  std::int64_t units_;
  Products products_;
};

// One after the other along axis 1, which is new.
ValueId stacked(Net& net, const Values& steps) {
  Values parts;
  for (const ValueId step : steps) {
    Dims dims = net.dims(step);
    dims.insert(dims.begin() + 1, 1);
    parts.push_back(net.reshape(step, dims));
  }
  return net.concat(parts, 1);
}

ValueId at_time(Net& net, ValueId x, std::int64_t t) {
  Dims dims = net.dims(x);
  dims.erase(dims.begin() + 1);
  return net.reshape(net.slice(x, 1, t, t + 1), dims);
}

ValueId unrolled(Net& net, const LayerSpec& spec, ValueId x) {
  const Dims dims = net.dims(x);
  if (dims[1] > kMostWritten) throw Error("the sequence is too long");
  Cell cell(net, spec, dims[2]);
  ValueId state = net.filled({dims[0], spec.number("units")}, 0), memory = state;
  Values steps;
  for (std::int64_t t = 0; t < dims[1]; ++t) {
    state = cell.step(at_time(net, x, t), state, memory);
    steps.push_back(state);
  }
  return spec.flag("return_sequences") ? stacked(net, steps) : state;
}

// Backwards, results stand in the order in which they were computed.
ValueId build_recurrent(Net& net, const LayerSpec& spec, const Values& in) {
  const ValueId x = spec.flag("go_backwards") ? net.reversed(in[0], 1) : in[0];
  return spec.flag("unroll") ? unrolled(net, spec, x) : as_op(net, spec, x);
}

Ints same_pads(const Dims& dims, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  Ints begin, end;
  for (std::size_t i = 2; i < dims.size(); ++i) {
    const std::int64_t outs = (dims[i] + stride - 1) / stride;
    const std::int64_t total = std::max<std::int64_t>((outs - 1) * stride + (kernel - 1) * dilation + 1 - dims[i], 0);
    begin.push_back(total / 2);
    end.push_back(total - total / 2);
  }
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

ValueId conv_over(Net& net, const LayerSpec& spec, ValueId x, ValueId weight, bool state) {
  const std::int64_t stride = state ? 1 : spec.number("strides"), dilation = state ? 1 : spec.number("dilation");
  const bool same = state || spec.word("padding") == "same";
  return net.add("Conv", {x, weight},
                 {{"kernel_shape", Ints(2, spec.number("kernel"))},
                  {"strides", Ints(2, stride)},
                  {"dilations", Ints(2, dilation)},
                  {"pads", same ? same_pads(net.dims(x), spec.number("kernel"), stride, dilation) : Ints(4, 0)}});
}

// LSTM whose products are convolutions, on [batch, time, rows, columns, channels].
ValueId build_conv_lstm(Net& net, const LayerSpec& spec, const Values& in) {
  const std::int64_t filters = spec.number("filters"), kernel = spec.number("kernel"), depth = net.dims(in[0])[4];
  const std::int64_t fan_in = (depth + filters) * kernel * kernel;
  const ValueId of_x = net.weight({4 * filters, depth, kernel, kernel}, fan_in);
  const ValueId of_h = net.weight({4 * filters, filters, kernel, kernel}, fan_in);
  const ValueId bias = spec.flag("use_bias") ? net.weight({4 * filters, 1, 1}, fan_in) : ValueId{};
  const auto gate = [&](ValueId all, std::int64_t i, const char* how) {
    return net.activation(net.slice(all, 1, i * filters, (i + 1) * filters), spec.word(how));
  };
  ValueId state = {}, memory = {};
  Values steps;
  for (std::int64_t t = 0; t < net.dims(in[0])[1]; ++t) {
    ValueId all = conv_over(net, spec, net.transpose(at_time(net, in[0], t), {0, 3, 1, 2}), of_x, false);
    if (bias.valid()) all = net.add("Add", {all, bias});
    if (state.valid()) all = net.add("Add", {all, conv_over(net, spec, state, of_h, true)});
    const ValueId fresh = net.add("Mul", {gate(all, 0, "recurrent_activation"), gate(all, 2, "activation")});
    memory = memory.valid() ? net.add("Add", {net.add("Mul", {gate(all, 1, "recurrent_activation"), memory}), fresh})
                            : fresh;
    state = net.add("Mul", {gate(all, 3, "recurrent_activation"), net.activation(memory, spec.word("activation"))});
    steps.push_back(net.transpose(state, {0, 2, 3, 1}));
  }
  return spec.flag("return_sequences") ? stacked(net, steps) : steps.back();
}

bool draw_bidirectional(Chooser& choose, const Operands& in, LayerSpec& spec) {
  if (in[0].size() == 4) return false;
  const char* kind = in[0].size() == 5 ? "convLSTM2D" : choose.one_of<const char*>({"LSTM", "GRU", "simpleRNN"});
  std::optional<LayerSpec> inner = draw_layer(layer_kind(kind), in, choose);
  if (!inner) return false;
  inner->set("go_backwards", 0);
  spec.inner = std::make_shared<const LayerSpec>(std::move(*inner));
  spec.set("merge_mode", choose.one_of<const char*>({"sum", "mul", "concat", "ave"}));
  return true;
}

// The backward results are turned round again, so that both speak of the same moment.
ValueId build_bidirectional(Net& net, const LayerSpec& spec, const Values& in) {
  const LayerKind& kind = layer_kind(spec.inner->kind);
  const ValueId forward = kind.build(net, *spec.inner, in);
  ValueId backward = kind.build(net, *spec.inner, {net.reversed(in[0], 1)});
  if (spec.inner->flag("return_sequences")) backward = net.reversed(backward, 1);
  const std::string mode = spec.word("merge_mode");
  if (mode == "concat") return net.concat({forward, backward}, net.rank(forward) - 1);
  if (mode == "mul") return net.add("Mul", {forward, backward});
  const ValueId sum = net.add("Add", {forward, backward});
  return mode == "ave" ? net.add("Mul", {sum, net.number(0.5)}) : sum;
}

// Without its time axis.
Dims one_moment(const Dims& dims) {
  Dims result = dims;
  result[0] *= result[1];
  result.erase(result.begin() + 1);
  return result;
}

// Activations come after layers only; the others would wrap without end.
constexpr std::string_view kNotWrapped[] = {"activation",       "ReLU",     "leakyReLU", "ELU",
                                            "thresholded_ReLU", "PReLU",    "softmax",   "time_distributed",
                                            "bidirectional",    "embedding"};

bool draw_time_distributed(Chooser& choose, const Operands& in, LayerSpec& spec) {
  const auto kinds = layer_kinds();
  for (int i = 0; i < 20; ++i) {
    const LayerKind& kind = kinds[choose.rng().below(kinds.size())];
    if (kind.merges || std::ranges::find(kNotWrapped, kind.name) != std::end(kNotWrapped)) continue;
    std::optional<LayerSpec> inner = draw_layer(kind, {one_moment(in[0])}, choose);
    if (!inner) continue;
    spec.inner = std::make_shared<const LayerSpec>(std::move(*inner));
    return true;
  }
  return false;
}

ValueId build_time_distributed(Net& net, const LayerSpec& spec, const Values& in) {
  const Dims dims = net.dims(in[0]);
  const ValueId y = layer_kind(spec.inner->kind).build(net, *spec.inner, {net.reshape(in[0], one_moment(dims))});
  Dims result = net.dims(y);
  result[0] = dims[1];
  result.insert(result.begin(), dims[0]);
  return net.reshape(y, result);
}

}  // namespace

std::vector<LayerKind> recurrent_layers() {
  return {{.name = "LSTM", .least_rank = 3, .most_rank = 3, .draw = draw_recurrent, .build = build_recurrent},
          {.name = "GRU", .least_rank = 3, .most_rank = 3, .draw = draw_recurrent, .build = build_recurrent},
          {.name = "simpleRNN", .least_rank = 3, .most_rank = 3, .draw = draw_recurrent, .build = build_recurrent},
          {.name = "convLSTM2D", .least_rank = 5, .most_rank = 5, .draw = draw_conv_lstm, .build = build_conv_lstm},
          {.name = "time_distributed", .least_rank = 3, .draw = draw_time_distributed, .build = build_time_distributed},
          {.name = "bidirectional",
           .least_rank = 3,
           .most_rank = 5,
           .draw = draw_bidirectional,
           .build = build_bidirectional}};
}

}  // namespace finity::muffin
