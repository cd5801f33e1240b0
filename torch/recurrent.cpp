// One-layer recurrent ops: the cells are written out, because LibTorch's own know neither clipping, nor peepholes, nor
// other activations.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/recurrent/cell_activation.h"
#include "ops/recurrent/recurrent_attrs.h"
#include "torch/lowering.h"

namespace finity {

namespace {

struct Function {
  std::string name;
  CellActivation parameters;

  at::Tensor operator()(const at::Tensor& x) const {
    const double clip = parameters.clip;
    return activated(name, std::isinf(clip) ? x : at::clamp(x, -clip, clip), parameters.alpha, parameters.beta);
  }
};

// One direction: weights [gates * hidden, ...] and biases.
struct Layer {
  at::Tensor w, r, w_bias, r_bias, peephole;
  std::vector<Function> functions;
  std::int64_t hidden = 0;
  bool coupled = false, linear_first = false;

  // Gate g of [batch, gates * hidden].
  at::Tensor gate(const at::Tensor& all, std::int64_t g) const { return all.narrow(-1, g * hidden, hidden); }
  at::Tensor peek(const at::Tensor& sum, std::int64_t g, const at::Tensor& c) const {
    return peephole.defined() ? at::add(sum, at::mul(gate(peephole, g), c)) : sum;
  }
};

struct State {
  at::Tensor h, c;
};

using Step = State (*)(const Layer&, const at::Tensor& x, const State&);

at::Tensor all_gates(const Layer& layer, const at::Tensor& x, const at::Tensor& h) {
  const at::Tensor sum = at::add(at::matmul(x, layer.w.t()), at::matmul(h, layer.r.t()));
  return at::add(sum, at::add(layer.w_bias, layer.r_bias));
}

State rnn_step(const Layer& layer, const at::Tensor& x, const State& state) {
  return {layer.functions[0](all_gates(layer, x, state.h)), {}};
}

// Gates: update, reset, hidden.
State gru_step(const Layer& layer, const at::Tensor& x, const State& state) {
  const at::Tensor gates = all_gates(layer, x, state.h);
  const at::Tensor z = layer.functions[0](layer.gate(gates, 0));
  const at::Tensor r = layer.functions[0](layer.gate(gates, 1));
  const auto rows = [&](const at::Tensor& weights) { return weights.narrow(0, 2 * layer.hidden, layer.hidden).t(); };
  const at::Tensor bias = layer.gate(layer.r_bias, 2);
  const at::Tensor from_state = layer.linear_first ? at::mul(r, at::add(at::matmul(state.h, rows(layer.r)), bias))
                                                   : at::add(at::matmul(at::mul(r, state.h), rows(layer.r)), bias);
  const at::Tensor from_input = at::add(at::matmul(x, rows(layer.w)), layer.gate(layer.w_bias, 2));
  const at::Tensor candidate = layer.functions[1](at::add(from_input, from_state));
  return {at::add(at::mul(at::rsub(z, 1), candidate), at::mul(z, state.h)), {}};
}

// Gates: input, output, forget, cell.
State lstm_step(const Layer& layer, const at::Tensor& x, const State& state) {
  const at::Tensor gates = all_gates(layer, x, state.h);
  const auto sum = [&](std::int64_t g) { return layer.gate(gates, g); };
  const at::Tensor i = layer.functions[0](layer.peek(sum(0), 0, state.c));
  const at::Tensor f = layer.coupled ? at::rsub(i, 1) : layer.functions[0](layer.peek(sum(2), 2, state.c));
  const at::Tensor c = at::add(at::mul(f, state.c), at::mul(i, layer.functions[1](sum(3))));
  const at::Tensor o = layer.functions[0](layer.peek(sum(1), 1, c));
  return {at::mul(o, layer.functions[2](c)), c};
}

struct Cell {
  std::int64_t gates = 1;
  std::vector<std::string> activations = {};
  Step step = nullptr;
};

Layer layer_of(const TorchCall& call, const Cell& cell, std::int64_t direction, std::int64_t directions) {
  Layer layer;
  layer.w = call.in(1).select(0, direction);
  layer.r = call.in(2).select(0, direction);
  layer.hidden = layer.r.size(1);
  const std::int64_t rows = cell.gates * layer.hidden;
  const at::Tensor bias = call.has(3) ? call.in(3).select(0, direction) : at::zeros({2 * rows}, call.in(0).options());
  layer.w_bias = bias.narrow(0, 0, rows);
  layer.r_bias = bias.narrow(0, rows, rows);
  if (call.has(7)) layer.peephole = call.in(7).select(0, direction);
  const RecurrentAttrs attrs = read_recurrent(call);
  layer.coupled = attrs.coupled;
  layer.linear_first = attrs.linear_first;
  const auto parameters = cell_activations(call, cell.activations, static_cast<std::size_t>(directions));
  const std::vector<std::string> names = call.texts("activations");
  const std::size_t count = cell.activations.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(direction) * count + i;
    layer.functions.push_back({names.empty() ? cell.activations[i] : names[at], parameters[at]});
  }
  return layer;
}

// x [time, batch, ...] with every sequence turned round within its own length; doing it twice undoes it.
at::Tensor turned(const at::Tensor& x, const at::Tensor& lengths) {
  const at::Tensor time = at::arange(x.size(0), at::kLong).unsqueeze(1);
  const at::Tensor index = at::where(at::lt(time, lengths), at::sub(at::sub(lengths, 1), time), time);
  return at::gather(x, 0, index.unsqueeze(-1).expand(x.sizes()));
}

// All steps of one direction: what every step gave, zeros behind a sequence's end, and the last states.
struct Track {
  at::Tensor y;
  State last;
};

Track run_layer(const Layer& layer, Step step, at::Tensor x, State state, const at::Tensor& lengths, bool reverse) {
  if (reverse) x = turned(x, lengths);
  std::vector<at::Tensor> steps;
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    const State next = step(layer, x.select(0, t), state);
    const at::Tensor runs = at::gt(lengths, t).unsqueeze(-1);
    state.h = at::where(runs, next.h, state.h);
    if (next.c.defined()) state.c = at::where(runs, next.c, state.c);
    steps.push_back(at::where(runs, next.h, at::zeros_like(next.h)));
  }
  at::Tensor y = steps.empty() ? at::zeros({0, state.h.size(0), layer.hidden}, x.options()) : at::stack(steps);
  return {reverse ? turned(y, lengths) : y, state};
}

void require_shape(const TorchCall& call, std::size_t i, const Dims& wanted) {
  if (!call.has(i) || call.in(i).sizes() == at::IntArrayRef(wanted)) return;
  throw Error("input " + std::to_string(i) + " has shape " + to_string(call.in(i).sizes().vec()) + ", expected " +
              to_string(wanted));
}

void check_shapes(const TorchCall& call, const Cell& cell, const at::Tensor& x, std::int64_t directions) {
  const std::int64_t batch = x.size(1), hidden = call.in(2).size(2), rows = cell.gates * hidden;
  const RecurrentAttrs attrs = read_recurrent(call);
  const Dims state = attrs.batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  if (attrs.hidden.value_or(hidden) != hidden) throw Error("attribute 'hidden_size' is not that of input R");
  require_shape(call, 1, {directions, rows, x.size(2)});
  require_shape(call, 2, {directions, rows, hidden});
  require_shape(call, 3, {directions, 2 * rows});
  require_shape(call, 4, {batch});
  require_shape(call, 5, state);
  require_shape(call, 6, state);
  require_shape(call, 7, {directions, 3 * hidden});
  if (!call.has(4)) return;
  for (const std::int64_t length : call.ints(4)) {
    if (length < 0 || length > x.size(0)) throw Error("sequence_lens has " + std::to_string(length));
  }
}

void lower_cell(TorchCall& call, const Cell& cell) {
  const RecurrentAttrs attrs = read_recurrent(call);
  const at::Tensor x = attrs.batch_first ? call.in(0).transpose(0, 1) : call.in(0);
  if (x.dim() != 3) throw Error("input X has rank " + std::to_string(x.dim()) + ", expected 3");
  const std::int64_t directions = attrs.directions;
  check_shapes(call, cell, x, directions);
  const std::int64_t batch = x.size(1), hidden = call.in(2).size(2);
  const at::Tensor lengths =
      call.has(4) ? call.in(4).to(at::kLong) : at::full({batch}, x.size(0), at::TensorOptions(at::kLong));
  const auto initial = [&](std::size_t i, std::int64_t d) {
    if (!call.has(i)) return at::zeros({batch, hidden}, x.options());
    return attrs.batch_first ? call.in(i).select(1, d) : call.in(i).select(0, d);
  };
  std::vector<at::Tensor> y, h, c;
  for (std::int64_t d = 0; d < directions; ++d) {
    const Layer layer = layer_of(call, cell, d, directions);
    const State first{initial(5, d), cell.gates == 4 ? initial(6, d) : at::Tensor()};
    const Track track = run_layer(layer, cell.step, x, first, lengths, attrs.runs_backward(d));
    y.push_back(track.y);
    h.push_back(track.last.h);
    if (cell.gates == 4) c.push_back(track.last.c);
  }
  const at::Tensor all = at::stack(y, 1);  // [time, directions, batch, hidden]
  call.out(0, attrs.batch_first ? all.permute({2, 0, 1, 3}) : all);
  call.out(1, at::stack(h, attrs.batch_first ? 1 : 0));
  if (!c.empty()) call.out(2, at::stack(c, attrs.batch_first ? 1 : 0));
}

void lower_rnn(TorchCall& call) { lower_cell(call, {1, {"Tanh"}, rnn_step}); }
void lower_gru(TorchCall& call) { lower_cell(call, {3, {"Sigmoid", "Tanh"}, gru_step}); }
void lower_lstm(TorchCall& call) { lower_cell(call, {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step}); }

constexpr TorchLowering kEntries[] = {
    {"RNN", "", lower_rnn},
    {"GRU", "", lower_gru},
    {"LSTM", "", lower_lstm},
};

}  // namespace

std::span<const TorchLowering> torch_recurrent() { return kEntries; }

}  // namespace finity
