// One-layer recurrent ops. The walk over directions, batch and time is the same
// for all; a cell says how many gates it has and how one step changes the state.
#include <algorithm>

#include "base/error.h"
#include "ops/recurrent/cell_activation.h"
#include "ops/recurrent/recurrent_attrs.h"
#include "ops/recurrent/recurrent_gradient.h"
#include "ops/recurrent/recurrent_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// ---- one direction's parameters and one sequence's state --------------------

// Weights of one direction. Rows of gate g for hidden unit j: index g * hidden + j.
template <class A>
struct Layer {
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  const A* w = nullptr;     // [gates * hidden, input]
  const A* r = nullptr;     // [gates * hidden, hidden]
  std::vector<A> w_bias;    // [gates * hidden]
  std::vector<A> r_bias;    // [gates * hidden]
  std::vector<A> peephole;  // [3 * hidden], LSTM
  std::vector<CellActivation> activations;
  bool coupled = false;       // LSTM: forget gate = 1 - input gate
  bool linear_first = false;  // GRU: linear_before_reset

  std::size_t row(int gate, std::int64_t unit) const { return static_cast<std::size_t>(gate * hidden + unit); }
  A input_part(int gate, std::int64_t unit, const A* x) const {
    const A* weights = w + row(gate, unit) * static_cast<std::size_t>(input);
    return pairwise_sum<A>(input, [=](std::int64_t k) { return weights[k] * x[k]; });
  }
  A state_part(int gate, std::int64_t unit, const std::vector<A>& h) const {
    const A* weights = r + row(gate, unit) * static_cast<std::size_t>(hidden);
    const A* state = h.data();
    return pairwise_sum<A>(hidden, [=](std::int64_t k) { return weights[k] * state[k]; });
  }
  // X * W^T + H * R^T + Wb + Rb
  A gate(int gate, std::int64_t unit, const A* x, const std::vector<A>& h) const {
    const std::size_t at = row(gate, unit);
    return input_part(gate, unit, x) + state_part(gate, unit, h) + (w_bias[at] + r_bias[at]);
  }
  A activate(std::size_t which, A x) const { return static_cast<A>(activations[which](static_cast<double>(x))); }
};

template <class A>
struct State {
  std::vector<A> h;
  std::vector<A> c;  // LSTM
};

// ---- cells ------------------------------------------------------------------

struct RnnCell {
  static constexpr int kGates = 1;
  static std::vector<std::string> activations() { return {"Tanh"}; }

  template <class A>
  static void step(const Layer<A>& layer, const A* x, State<A>& state) {
    std::vector<A> next(state.h.size());
    for (std::int64_t j = 0; j < layer.hidden; ++j) {
      next[static_cast<std::size_t>(j)] = layer.activate(0, layer.gate(0, j, x, state.h));
    }
    state.h = std::move(next);
  }
};

struct GruCell {
  static constexpr int kGates = 3;
  enum Gate : int { update, reset, hidden };
  static std::vector<std::string> activations() { return {"Sigmoid", "Tanh"}; }

  template <class A>
  static void step(const Layer<A>& layer, const A* x, State<A>& state) {
    const std::size_t size = state.h.size();
    std::vector<A> z(size);
    std::vector<A> r(size);
    std::vector<A> gated(size);
    std::vector<A> next(size);
    for (std::size_t j = 0; j < size; ++j) {
      z[j] = layer.activate(0, layer.gate(update, static_cast<std::int64_t>(j), x, state.h));
      r[j] = layer.activate(0, layer.gate(reset, static_cast<std::int64_t>(j), x, state.h));
      gated[j] = r[j] * state.h[j];
    }
    for (std::size_t j = 0; j < size; ++j) {
      const auto unit = static_cast<std::int64_t>(j);
      const std::size_t at = layer.row(hidden, unit);
      const A from_state = layer.linear_first ? r[j] * (layer.state_part(hidden, unit, state.h) + layer.r_bias[at])
                                              : layer.state_part(hidden, unit, gated) + layer.r_bias[at];
      const A candidate = layer.activate(1, layer.input_part(hidden, unit, x) + from_state + layer.w_bias[at]);
      next[j] = (1 - z[j]) * candidate + z[j] * state.h[j];
    }
    state.h = std::move(next);
  }
};

struct LstmCell {
  static constexpr int kGates = 4;
  enum Gate : int { input, output, forget, cell };
  static std::vector<std::string> activations() { return {"Sigmoid", "Tanh", "Tanh"}; }

  template <class A>
  static void step(const Layer<A>& layer, const A* x, State<A>& state) {
    const std::size_t size = state.h.size();
    const auto peek = [&](Gate gate, std::size_t j, A c) {
      return layer.peephole.empty() ? A{0} : layer.peephole[static_cast<std::size_t>(gate) * size + j] * c;
    };
    State<A> next{std::vector<A>(size), std::vector<A>(size)};
    for (std::size_t j = 0; j < size; ++j) {
      const auto unit = static_cast<std::int64_t>(j);
      const auto gate = [&](Gate which) { return layer.gate(which, unit, x, state.h); };
      const A c = state.c[j];
      const A i = layer.activate(0, gate(input) + peek(input, j, c));
      const A f = layer.coupled ? 1 - i : layer.activate(0, gate(forget) + peek(forget, j, c));
      next.c[j] = f * c + i * layer.activate(1, gate(cell));
      const A o = layer.activate(0, gate(output) + peek(output, j, next.c[j]));
      next.h[j] = o * layer.activate(2, next.c[j]);
    }
    state = std::move(next);
  }
};

// ---- shapes -----------------------------------------------------------------

struct Sizes {
  std::int64_t time = 0, batch = 0, input = 0, hidden = 0, directions = 0;
  bool batch_first = false;

  std::size_t x_at(std::int64_t t, std::int64_t b) const {
    return static_cast<std::size_t>((batch_first ? b * time + t : t * batch + b) * input);
  }
  std::size_t y_at(std::int64_t t, std::int64_t d, std::int64_t b) const {
    const std::int64_t at = batch_first ? (b * time + t) * directions + d : (t * directions + d) * batch + b;
    return static_cast<std::size_t>(at * hidden);
  }
  std::size_t state_at(std::int64_t d, std::int64_t b) const {
    return static_cast<std::size_t>((batch_first ? b * directions + d : d * batch + b) * hidden);
  }
};

// Shapes of Y and of Y_h, Y_c; D is Dim or std::int64_t.
template <class D>
std::vector<D> sequence_shape(bool batch_first, const D& time, const D& directions, const D& batch, const D& hidden) {
  if (batch_first) return {batch, time, directions, hidden};
  return {time, directions, batch, hidden};
}
template <class D>
std::vector<D> state_shape(bool batch_first, const D& directions, const D& batch, const D& hidden) {
  if (batch_first) return {batch, directions, hidden};
  return {directions, batch, hidden};
}

void check_shape(const EvalCall& call, std::size_t input, const Dims& wanted) {
  if (!call.has_input(input) || call.in(input).dims() == wanted) return;
  throw Error("input " + signature_of(call.op()).inputs[input].name + " has shape " + to_string(call.in(input).dims()) +
              ", expected " + to_string(wanted));
}

Sizes sizes_of(const EvalCall& call, int gates) {
  require_rank(call.in(0), "input X", 3);
  require_rank(call.in(2), "input R", 3);
  const RecurrentAttrs attrs = read_recurrent(call);
  Sizes sizes{.batch_first = attrs.batch_first};
  sizes.time = call.in(0).dim(sizes.batch_first ? 1 : 0);
  sizes.batch = call.in(0).dim(sizes.batch_first ? 0 : 1);
  sizes.input = call.in(0).dim(2);
  sizes.hidden = call.in(2).dim(2);
  sizes.directions = attrs.directions;
  if (attrs.hidden.value_or(sizes.hidden) != sizes.hidden) {
    throw Error("attribute 'hidden_size' is " + std::to_string(*attrs.hidden) + ", input R has " +
                std::to_string(sizes.hidden));
  }
  const std::int64_t rows = gates * sizes.hidden;
  const Dims state = state_shape(sizes.batch_first, sizes.directions, sizes.batch, sizes.hidden);
  check_shape(call, 1, {sizes.directions, rows, sizes.input});
  check_shape(call, 2, {sizes.directions, rows, sizes.hidden});
  check_shape(call, 3, {sizes.directions, 2 * rows});
  check_shape(call, 4, {sizes.batch});
  check_shape(call, 5, state);
  check_shape(call, 6, state);
  check_shape(call, 7, {sizes.directions, 3 * sizes.hidden});
  return sizes;
}

// Empty when every sequence is as long as the tensor.
std::vector<std::int64_t> sequence_lengths(const EvalCall& call, const Sizes& sizes) {
  if (!call.has_input(4)) return {};
  std::vector<std::int64_t> lengths = elements<std::int64_t>(call.in(4));
  for (const std::int64_t length : lengths) {
    if (length >= 0 && length <= sizes.time) continue;
    throw Error("sequence_lens has " + std::to_string(length) + ", the sequences have " + std::to_string(sizes.time) +
                " steps");
  }
  return lengths;
}

// ---- evaluation ---------------------------------------------------------------

// All operands as numbers; absent ones are empty.
template <class A>
struct Operands {
  std::vector<A> x, w, r, bias, h, c, peephole;

  explicit Operands(const EvalCall& call)
      : x(get(call, 0)),
        w(get(call, 1)),
        r(get(call, 2)),
        bias(get(call, 3)),
        h(get(call, 5)),
        c(get(call, 6)),
        peephole(get(call, 7)) {}
  static std::vector<A> get(const EvalCall& call, std::size_t i) {
    return call.has_input(i) ? elements<A>(call.in(i)) : std::vector<A>();
  }
};

// `count` elements from `first` on, zeros when the operand is absent.
template <class A>
std::vector<A> part(const std::vector<A>& from, std::size_t first, std::size_t count) {
  if (from.empty()) return std::vector<A>(count);
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
  return std::vector<A>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

template <class Cell, class A>
Layer<A> layer_of(const EvalCall& call, const Sizes& sizes, const Operands<A>& operands, std::int64_t direction) {
  const auto d = static_cast<std::size_t>(direction);
  const auto rows = static_cast<std::size_t>(Cell::kGates * sizes.hidden);
  const std::size_t peepholes = 3 * static_cast<std::size_t>(sizes.hidden);
  Layer<A> layer;
  layer.input = sizes.input;
  layer.hidden = sizes.hidden;
  layer.w = operands.w.data() + d * rows * static_cast<std::size_t>(sizes.input);
  layer.r = operands.r.data() + d * rows * static_cast<std::size_t>(sizes.hidden);
  layer.w_bias = part(operands.bias, 2 * d * rows, rows);
  layer.r_bias = part(operands.bias, (2 * d + 1) * rows, rows);
  if (!operands.peephole.empty()) layer.peephole = part(operands.peephole, d * peepholes, peepholes);
  const auto all = cell_activations(call, Cell::activations(), static_cast<std::size_t>(sizes.directions));
  layer.activations = part(all, d * Cell::activations().size(), Cell::activations().size());
  const RecurrentAttrs attrs = read_recurrent(call);
  layer.coupled = attrs.coupled;
  layer.linear_first = attrs.linear_first;
  return layer;
}

// What the node's outputs are filled from.
template <class A>
struct Outputs {
  std::vector<A> y, h, c;
};

template <class A>
void store(const std::vector<A>& from, std::vector<A>& to, std::size_t first) {
  std::ranges::copy(from, to.begin() + static_cast<std::ptrdiff_t>(first));
}

// Runs one sequence of the batch in one direction.
template <class Cell, class A>
void run_sequence(const Layer<A>& layer, const Sizes& sizes, const Operands<A>& operands, DType dtype, std::int64_t d,
                  std::int64_t b, std::int64_t length, bool reverse, Outputs<A>& outputs) {
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  const std::size_t at = sizes.state_at(d, b);
  State<A> state{part(operands.h, at, hidden), part(operands.c, at, hidden)};
  const auto round = [dtype](A& value) { value = static_cast<A>(round_to(dtype, static_cast<double>(value))); };
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t t = reverse ? length - 1 - step : step;
    Cell::step(layer, operands.x.data() + sizes.x_at(t, b), state);
    std::ranges::for_each(state.h, round);
    std::ranges::for_each(state.c, round);
    store(state.h, outputs.y, sizes.y_at(t, d, b));
  }
  store(state.h, outputs.h, at);
  store(state.c, outputs.c, at);
}

template <class Cell, class A>
Outputs<A> run_all(const EvalCall& call, const Sizes& sizes, std::size_t y_size, std::size_t state_size) {
  const Operands<A> operands(call);
  const std::vector<std::int64_t> lengths = sequence_lengths(call, sizes);
  Outputs<A> outputs{std::vector<A>(y_size), std::vector<A>(state_size), std::vector<A>(state_size)};
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const Layer<A> layer = layer_of<Cell>(call, sizes, operands, d);
    const bool reverse = read_recurrent(call).runs_backward(d);
    for (std::int64_t b = 0; sizes.hidden > 0 && b < sizes.batch; ++b) {
      const std::int64_t length = lengths.empty() ? sizes.time : lengths[static_cast<std::size_t>(b)];
      run_sequence<Cell>(layer, sizes, operands, call.in(0).dtype(), d, b, length, reverse, outputs);
    }
  }
  return outputs;
}

template <class Cell>
void eval_recurrent(EvalCall& call) {
  const Sizes sizes = sizes_of(call, Cell::kGates);
  const DType dtype = call.in(0).dtype();
  const Dims y_dims = sequence_shape(sizes.batch_first, sizes.time, sizes.directions, sizes.batch, sizes.hidden);
  const Dims state_dims = state_shape(sizes.batch_first, sizes.directions, sizes.batch, sizes.hidden);
  const Tensor y(dtype, y_dims);  // throws when it would be too large
  const Tensor state(dtype, state_dims);
  with_float_sum_type(dtype, [&]<class A>() {
    const Outputs<A> outputs =
        run_all<Cell, A>(call, sizes, static_cast<std::size_t>(y.size()), static_cast<std::size_t>(state.size()));
    call.out(0, from_elements(dtype, y_dims, outputs.y));
    call.out(1, from_elements(dtype, state_dims, outputs.h));
    call.out(2, from_elements(dtype, state_dims, outputs.c));
  });
}

// ---- inference ----------------------------------------------------------------

void infer_recurrent(InferCall& call) {
  for (const std::size_t input : {0, 1, 2, 5, 6}) require_rank(call, input, 3);
  for (const std::size_t input : {3, 7}) require_rank(call, input, 2);
  require_rank(call, 4, 1);
  const RecurrentAttrs attrs = read_recurrent(call);
  const bool batch_first = attrs.batch_first;
  const Dim directions = Dim::of(attrs.directions);
  const Shape x = call.ranked(0) ? call.shape(0) : unknown_shape_of(call.in(0), 3);
  const Dim time = x[batch_first ? 1 : 0];
  const Dim batch = x[batch_first ? 0 : 1];
  Dim hidden;
  if (attrs.hidden.value_or(0) > 0) hidden = Dim::of(*attrs.hidden);
  else if (call.ranked(2)) hidden = call.shape(2)[2];
  call.set_shape(0, sequence_shape(batch_first, time, directions, batch, hidden));
  call.set_shape(1, state_shape(batch_first, directions, batch, hidden));
  call.set_shape(2, state_shape(batch_first, directions, batch, hidden));
}

constexpr std::string_view kSignature =
    "(X: T, W: T, R: T, B?: T, sequence_lens?: int32, initial_h?: T) -> (Y?: T, Y_h?: T) where T: float";
constexpr std::string_view kFreedom =
    "gates are computed in float32 (float64 for float64) with pairwise sums; the state is rounded to the dtype after "
    "each step; clip bounds the input of every activation; an empty sequence keeps its initial state";

// ---- drawing ---------------------------------------------------------------

// Weights, biases, lengths and the state before the first step.
template <class Cell>
bool draw_recurrent(DrawCall& call) {
  if (call.rank() != 3) return false;
  const std::int64_t hidden = call.integer("hidden_size", 2), steps = call.length(0), batch = call.length(1);
  const std::int64_t ways = call.text("direction") == "bidirectional" ? 2 : 1, rows = Cell::kGates * hidden;
  call.add_floats({ways, rows, call.length(2)});
  call.add_floats({ways, rows, hidden});
  if (call.chance(60)) call.add_floats({ways, 2 * rows});
  else call.leave_out();
  if (call.chance(25)) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch));
    for (std::int64_t& length : lengths) length = call.between(1, std::max<std::int64_t>(steps, 1));
    call.add(from_elements<std::int64_t>(DType::int32, {batch}, lengths), 50);
  } else {
    call.leave_out();
  }
  if (!call.chance(40)) return true;
  call.add_floats({ways, batch, hidden});
  if (!std::is_same_v<Cell, LstmCell> || !call.chance(60)) return true;
  call.add_floats({ways, batch, hidden});
  if (call.chance(30)) call.add_floats({ways, 3 * hidden});
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "RNN",
                  .summary = "simple recurrent layer: h' = f(x W^T + h R^T + b)",
                  .signature = kSignature,
                  .attrs = "activation_alpha: floats; activation_beta: floats; activations: strings; clip: float; "
                           "direction: string = forward {forward, reverse, bidirectional}; hidden_size: int; "
                           "layout: int = 0 since 14; output_sequence: int = 0 until 6"},
     .meaning = {.infer = infer_recurrent, .eval = eval_recurrent<RnnCell>, .freedom = kFreedom},
     .analysis = {.range = range_rnn,
                  .vjp = rnn_gradient,
                  .hazards = recurrent_hazards(),
                  .overflow = "FN204",
                  .grants = kCell},
     .drawing = {.operands = draw_recurrent<RnnCell>, .first = FirstOperand::sequence}},
    {.identity = {.name = "GRU",
                  .summary = "gated recurrent unit: h' = (1 - z) * candidate + z * h",
                  .signature = kSignature,
                  .attrs = "activation_alpha: floats; activation_beta: floats; activations: strings; clip: float; "
                           "direction: string = forward {forward, reverse, bidirectional}; hidden_size: int; "
                           "layout: int = 0 since 14; linear_before_reset: int = 0 since 3; output_sequence: int = "
                           "0 until 6"},
     .meaning = {.infer = infer_recurrent, .eval = eval_recurrent<GruCell>, .freedom = kFreedom},
     .analysis = {.range = range_gru,
                  .vjp = gru_gradient,
                  .hazards = recurrent_hazards(),
                  .overflow = "FN204",
                  .grants = kCell},
     .drawing = {.operands = draw_recurrent<GruCell>, .first = FirstOperand::sequence}},
    {.identity = {.name = "LSTM",
                  .summary = "long short-term memory: c' = forget * c + input * candidate, h' = output * h(c')",
                  .signature =
                      "(X: T, W: T, R: T, B?: T, sequence_lens?: int32, initial_h?: T, initial_c?: T, P?: T) -> "
                      "(Y?: T, Y_h?: T, Y_c?: T) where T: float",
                  .attrs = "activation_alpha: floats; activation_beta: floats; activations: strings; clip: float; "
                           "direction: string = forward {forward, reverse, bidirectional}; hidden_size: int; "
                           "input_forget: int = 0; layout: int = 0 since 14; output_sequence: int = 0 until 6"},
     .meaning = {.infer = infer_recurrent, .eval = eval_recurrent<LstmCell>, .freedom = kFreedom},
     .analysis = {.range = range_lstm,
                  .vjp = lstm_gradient,
                  .hazards = recurrent_hazards(),
                  .overflow = "FN204",
                  .grants = kCell},
     .drawing = {.operands = draw_recurrent<LstmCell>, .first = FirstOperand::sequence}},
};

}  // namespace

std::span<const OpDef> recurrent_ops() { return kOps; }

}  // namespace finity
