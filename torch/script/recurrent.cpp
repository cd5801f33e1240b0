// Recurrent layers and cells. PyTorch's rows of weights are input, forget, cell, output (LSTM) and reset, update, new
// (GRU); ONNX's are input, output, forget, cell and update, reset, hidden.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "torch/script/call.h"

namespace finity {

namespace {

struct Kind {
  const char* op;
  std::vector<std::size_t> order;  // of ONNX's gates among PyTorch's
  const char* activation = nullptr;
  bool has_cell = false;
};

Kind kind_of(const std::string& op) {
  if (op.starts_with("aten::lstm")) return {.op = "LSTM", .order = {0, 3, 1, 2}, .has_cell = true};
  if (op.starts_with("aten::gru")) return {.op = "GRU", .order = {1, 0, 2}};
  return {.op = "RNN", .order = {0}, .activation = op.starts_with("aten::rnn_relu") ? "Relu" : "Tanh"};
}

// The gates' rows in ONNX's order.
ValueId reordered(ScriptCall& call, const ScriptItem& weight, const Kind& kind) {
  if (kind.order.size() == 1) return call.from(weight);
  const auto gates = static_cast<std::int64_t>(kind.order.size());
  if (!weight.id.valid() && weight.constant.isTensor()) {
    const std::vector<at::Tensor> parts = weight.constant.toTensor().chunk(gates, 0);
    if (parts.size() != kind.order.size()) throw Unsupported("has weights of another shape");
    std::vector<at::Tensor> ordered;
    for (const std::size_t gate : kind.order) ordered.push_back(parts[gate]);
    return call.from({.constant = at::cat(ordered, 0)});
  }
  const std::vector<ValueId> parts = call.add_many(
      "Split", {call.from(weight)}, {{"axis", std::int64_t{0}}, {"num_outputs", gates}}, kind.order.size());
  std::vector<ValueId> ordered;
  for (const std::size_t gate : kind.order) ordered.push_back(parts[gate]);
  return call.add("Concat", ordered, {{"axis", std::int64_t{0}}});
}

// One for each direction, along a new first axis.
ValueId stacked(ScriptCall& call, const std::vector<ValueId>& directions) {
  std::vector<ValueId> parts;
  for (const ValueId one : directions) parts.push_back(call.add("Unsqueeze", {one, call.vector_of({0})}));
  return parts.size() == 1 ? parts[0] : call.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

struct Layer {
  ValueId w, r, bias;
};

// Of the directions of one layer: w_ih, w_hh, b_ih, b_hh of each.
Layer layer_of(ScriptCall& call, std::span<const ScriptItem> weights, const Kind& kind, bool biases,
               std::size_t directions) {
  const std::size_t each = biases ? 4 : 2;
  std::vector<ValueId> w, r, bias;
  for (std::size_t d = 0; d < directions; ++d) {
    const auto own = weights.subspan(d * each, each);
    w.push_back(reordered(call, own[0], kind));
    r.push_back(reordered(call, own[1], kind));
    if (!biases) continue;
    bias.push_back(call.add("Concat", {reordered(call, own[2], kind), reordered(call, own[3], kind)},
                            {{"axis", std::int64_t{0}}}));
  }
  return {stacked(call, w), stacked(call, r), biases ? stacked(call, bias) : ValueId{}};
}

std::vector<ValueId> add_layer(ScriptCall& call, const Kind& kind, const Layer& layer, ValueId x, ValueId h, ValueId c,
                               std::size_t directions) {
  std::vector<std::pair<std::string_view, Attr>> attrs;
  attrs.emplace_back("direction", std::string(directions == 2 ? "bidirectional" : "forward"));
  attrs.emplace_back("hidden_size", call.dims(layer.r).at(2));
  if (kind.activation != nullptr)
    attrs.emplace_back("activations", std::vector<std::string>(directions, kind.activation));
  if (std::string_view(kind.op) == "GRU") attrs.emplace_back("linear_before_reset", std::int64_t{1});
  std::vector<ValueId> inputs = {x, layer.w, layer.r, layer.bias, ValueId{}, h};
  if (kind.has_cell) inputs.push_back(c);
  return call.add_with(kind.op, inputs, attrs, kind.has_cell ? 3 : 2);
}

ValueId rows(ScriptCall& call, ValueId state, std::size_t layer, std::size_t directions, std::size_t layers) {
  if (layers == 1) return state;
  const auto from = static_cast<std::int64_t>(layer * directions), to = from + static_cast<std::int64_t>(directions);
  return call.add("Slice", {state, call.vector_of({from}), call.vector_of({to}), call.vector_of({0})});
}

// [time, directions, batch, hidden] as PyTorch has it: directions beside each other.
ValueId beside(ScriptCall& call, ValueId y, std::size_t directions) {
  if (directions == 1) return call.add("Squeeze", {y, call.vector_of({1})});
  const ValueId turned = call.add("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  return call.add("Reshape", {turned, call.vector_of({0, 0, -1})});
}

void recurrent_layers(ScriptCall& call) {
  const Kind kind = kind_of(call.op);
  if (!call.has("input")) throw Unsupported("runs over packed sequences");
  const std::vector<ScriptItem> weights = call.items("params");
  const bool biases = call.flag("has_biases");
  const auto layers = static_cast<std::size_t>(call.integer("num_layers"));
  const std::size_t directions = call.flag("bidirectional") ? 2 : 1, each = directions * (biases ? 4 : 2);
  if (weights.size() != layers * each) throw Unsupported("projects its state");
  if (call.flag("train") && layers > 1 && call.real("dropout", 0) != 0) throw Unsupported("is in training mode");
  ValueId x = call.tensor("input"), h, c;
  if (call.rank(x) != 3) throw Unsupported("has no batch");
  if (kind.has_cell) {
    const std::vector<ValueId> state = call.tensors("hx");
    if (state.size() != 2) throw Unsupported("has a state of another kind");
    h = state[0];
    c = state[1];
  } else {
    h = call.tensor("hx");
  }
  const bool batch_first = call.flag("batch_first");
  if (batch_first) x = call.add("Transpose", {x}, {{"perm", Ints{1, 0, 2}}});
  std::vector<ValueId> last_h, last_c;
  for (std::size_t i = 0; i < layers; ++i) {
    const Layer layer = layer_of(call, std::span(weights).subspan(i * each, each), kind, biases, directions);
    const auto out = add_layer(call, kind, layer, x, rows(call, h, i, directions, layers),
                               kind.has_cell ? rows(call, c, i, directions, layers) : ValueId{}, directions);
    x = beside(call, out[0], directions);
    last_h.push_back(out[1]);
    if (kind.has_cell) last_c.push_back(out[2]);
  }
  const auto joined = [&](const std::vector<ValueId>& parts) {
    return parts.size() == 1 ? parts[0] : call.add("Concat", parts, {{"axis", std::int64_t{0}}});
  };
  call.give(batch_first ? call.add("Transpose", {x}, {{"perm", Ints{1, 0, 2}}}) : x);
  call.give(joined(last_h));
  if (kind.has_cell) call.give(joined(last_c));
}

// One step: a sequence of length 1.
void recurrent_cell(ScriptCall& call) {
  const Kind kind = kind_of(call.op);
  const bool biases = call.has("b_ih");
  std::vector<ScriptItem> weights = {call.argument("w_ih"), call.argument("w_hh")};
  if (biases != call.has("b_hh")) throw Unsupported("has one of two biases");
  if (biases) {
    weights.push_back(call.argument("b_ih"));
    weights.push_back(call.argument("b_hh"));
  }
  const ValueId first = call.vector_of({0});
  const auto ahead = [&](ValueId id) { return call.add("Unsqueeze", {id, first}); };
  const ValueId x = call.tensor("input");
  if (call.rank(x) != 2) throw Unsupported("has no batch");
  ValueId h, c;
  if (kind.has_cell) {
    const std::vector<ValueId> state = call.tensors("hx");
    if (state.size() != 2) throw Unsupported("has a state of another kind");
    h = ahead(state[0]);
    c = ahead(state[1]);
  } else {
    h = ahead(call.tensor("hx"));
  }
  const Layer layer = layer_of(call, weights, kind, biases, 1);
  const auto out = add_layer(call, kind, layer, ahead(x), h, c, 1);
  for (std::size_t i = 1; i < out.size(); ++i) call.give(call.add("Squeeze", {out[i], first}));
}

constexpr ScriptLowering kEntries[] = {
    {"lstm", recurrent_layers},        {"gru", recurrent_layers},         {"rnn_tanh", recurrent_layers},
    {"rnn_relu", recurrent_layers},    {"lstm_cell", recurrent_cell},     {"gru_cell", recurrent_cell},
    {"rnn_tanh_cell", recurrent_cell}, {"rnn_relu_cell", recurrent_cell},
};

}  // namespace

std::span<const ScriptLowering> script_recurrent() { return kEntries; }

}  // namespace finity
