#include "ops/recurrent/recurrent_gradient.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/recurrent/cell_activation.h"
#include "ops/recurrent/recurrent_attrs.h"
#include "ops/table/build_call.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::int64_t kZero = 0, kOne = 1;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// One of the functions of the cell on `x`, which `clip` bounds first.
struct Activation {
  std::string name;  // in lower case
  CellActivation parameters;

  ValueId on(BuildCall& call, ValueId x) const {
    const double clip = parameters.clip;
    if (std::isfinite(clip)) x = call.add("Clip", {x, call.scalar(-clip), call.scalar(clip)});
    const double alpha = parameters.alpha, beta = parameters.beta;
    if (name == "affine") return call.sum(call.product(call.scalar(alpha), x), call.scalar(beta));
    if (name == "scaledtanh") {
      return call.product(call.scalar(alpha), call.add("Tanh", {call.product(call.scalar(beta), x)}));
    }
    const Attrs slope = with_attr("alpha", static_cast<float>(alpha));
    if (name == "leakyrelu") return call.add("LeakyRelu", {x}, slope);
    if (name == "thresholdedrelu") return call.add("ThresholdedRelu", {x}, slope);
    if (name == "elu") return call.add("Elu", {x}, slope);
    if (name == "hardsigmoid") return call.add("HardSigmoid", {x}, with_attr(slope, "beta", static_cast<float>(beta)));
    for (const std::string_view op : {"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"}) {
      if (lower(std::string(op)) == name) return call.add(op, {x});
    }
    throw Unsupported("the derivative of the function '" + name + "' is not modelled");
  }
};

// The parameters of one direction; those that are not given are invalid.
struct Layer {
  std::vector<Activation> activations = {};
  std::int64_t gates = 0;
  ValueId weights = {};    // [input, gates * hidden]
  ValueId recurrent = {};  // [hidden, gates * hidden]
  ValueId w_bias = {};     // [gates * hidden]
  ValueId r_bias = {};     // [gates * hidden]
  ValueId peephole = {};   // [3 * hidden]
};

struct State {
  ValueId h = {};
  ValueId c = {};
};

std::vector<ValueId> split_last(BuildCall& call, ValueId value, std::int64_t parts) {
  if (parts == 1) return {value};
  return call.add_all("Split", {value}, static_cast<std::size_t>(parts),
                      with_attr(with_attr("axis", std::int64_t{-1}), "num_outputs", parts));
}

ValueId with_bias(BuildCall& call, ValueId value, ValueId bias) { return bias.valid() ? call.sum(value, bias) : value; }

// ---- one step ---------------------------------------------------------------

// `x` is what the input gives to the gates, [batch, gates * hidden].
using CellStep = State (*)(BuildCall& call, const Layer& layer, ValueId x, const State& state);

ValueId from_state(BuildCall& call, const Layer& layer, const State& state) {
  return with_bias(call, call.add("MatMul", {state.h, layer.recurrent}), layer.r_bias);
}

State rnn_step(BuildCall& call, const Layer& layer, ValueId x, const State& state) {
  return {.h = layer.activations[0].on(call, call.sum(x, from_state(call, layer, state)))};
}

State gru_step(BuildCall& call, const Layer& layer, ValueId x, const State& state) {
  const std::vector<ValueId> from_x = split_last(call, x, 3);
  const std::vector<ValueId> from_h = split_last(call, from_state(call, layer, state), 3);
  const ValueId update = layer.activations[0].on(call, call.sum(from_x[0], from_h[0]));
  const ValueId reset = layer.activations[0].on(call, call.sum(from_x[1], from_h[1]));
  ValueId gated;
  if (read_recurrent(call).linear_first) {
    gated = call.product(reset, from_h[2]);
  } else {
    const ValueId matrix = split_last(call, layer.recurrent, 3)[2];
    gated = call.add("MatMul", {call.product(reset, state.h), matrix});
    if (layer.r_bias.valid()) gated = call.sum(gated, split_last(call, layer.r_bias, 3)[2]);
  }
  const ValueId candidate = layer.activations[1].on(call, call.sum(from_x[2], gated));
  const ValueId fresh = call.product(call.difference(call.scalar(1), update), candidate);
  return {.h = call.sum(fresh, call.product(update, state.h))};
}

State lstm_step(BuildCall& call, const Layer& layer, ValueId x, const State& state) {
  enum Gate : std::size_t { input, output, forget, cell };
  const std::vector<ValueId> gates = split_last(call, call.sum(x, from_state(call, layer, state)), 4);
  std::vector<ValueId> peepholes;
  if (layer.peephole.valid()) peepholes = split_last(call, layer.peephole, 3);
  const auto gate = [&](Gate which, ValueId c) {
    const ValueId seen = peepholes.empty() ? gates[which] : call.sum(gates[which], call.product(peepholes[which], c));
    return layer.activations[0].on(call, seen);
  };
  const ValueId i = gate(input, state.c);
  const bool coupled = read_recurrent(call).coupled;
  const ValueId f = coupled ? call.difference(call.scalar(1), i) : gate(forget, state.c);
  const ValueId fresh = call.product(i, layer.activations[1].on(call, gates[cell]));
  const ValueId c = call.sum(call.product(f, state.c), fresh);
  return {.h = call.product(gate(output, c), layer.activations[2].on(call, c)), .c = c};
}

// ---- all steps --------------------------------------------------------------

struct CellKind {
  CellStep step = nullptr;
  std::int64_t gates = 1;
  bool has_cell = false;
  std::vector<std::string> activations = {};
};

struct Sequence {
  ValueId y = {};  // [time, batch, hidden]
  State last = {};
};

class Definition {
 public:
  Definition(BuildCall& call, const CellKind& kind) : call_(call), kind_(kind), attrs_(read_recurrent(call)) {
    x_ = attrs_.batch_first ? transpose(call, call.in(0), {1, 0, 2}) : call.in(0);
    if (!call.has_input(4)) return;
    lengths_ = call.cast(call.in(4), DType::int64);
    const ValueId time = call.add("Gather", {call.add("Shape", {x_}), call.scalar(0, DType::int64)});
    const ValueId steps = call.add("Range", {call.scalar(0, DType::int64), time, call.scalar(1, DType::int64)});
    const ValueId column = call.add("Unsqueeze", {lengths_, call.ints({1})});
    inside_ = call.add("Less", {call.add("Unsqueeze", {steps, call.ints({1, 2})}), column});
  }

  void give() {
    std::vector<ValueId> ys, hs, cs;
    const auto directions = static_cast<std::size_t>(attrs_.directions);
    for (std::size_t d = 0; d < directions; ++d) {
      const bool backward = attrs_.runs_backward(static_cast<std::int64_t>(d));
      const Sequence sequence = one_direction(d, directions, backward);
      ys.push_back(call_.add("Unsqueeze", {sequence.y, call_.ints({1})}));
      hs.push_back(call_.add("Unsqueeze", {sequence.last.h, call_.ints({0})}));
      if (kind_.has_cell) cs.push_back(call_.add("Unsqueeze", {sequence.last.c, call_.ints({0})}));
    }
    std::vector<ValueId> results = {joined(ys, 1, {2, 0, 1, 3}), joined(hs, 0, {1, 0, 2})};
    if (kind_.has_cell) results.push_back(joined(cs, 0, {1, 0, 2}));
    call_.give_through(results);
  }

 private:
  ValueId joined(const std::vector<ValueId>& parts, std::int64_t axis, std::vector<std::int64_t> order) {
    const ValueId all = parts.size() == 1 ? parts[0] : call_.add("Concat", parts, with_attr("axis", axis));
    return attrs_.batch_first ? transpose(call_, all, std::move(order)) : all;
  }

  // Row d of an operand, invalid when it is not given.
  ValueId row(std::size_t operand, std::size_t d, std::int64_t axis = 0) {
    if (!call_.has_input(operand)) return {};
    const ValueId index = call_.scalar(static_cast<double>(d), DType::int64);
    return call_.add("Gather", {call_.in(operand), index}, with_attr("axis", axis));
  }

  Layer layer_of(std::size_t d, std::size_t directions) {
    Layer layer;
    layer.gates = kind_.gates;
    const std::size_t count = kind_.activations.size();
    const std::vector<CellActivation> all = cell_activations(call_, kind_.activations, directions);
    const std::vector<std::string> names = call_.texts("activations");
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = names.empty() ? kind_.activations[i] : names[d * count + i];
      layer.activations.push_back({.name = lower(name), .parameters = all[d * count + i]});
    }
    layer.weights = transpose(call_, row(1, d), {1, 0});
    layer.recurrent = transpose(call_, row(2, d), {1, 0});
    if (call_.has_input(3)) {
      const std::vector<ValueId> biases = split_last(call_, row(3, d), 2);
      layer.w_bias = biases[0];
      layer.r_bias = biases[1];
    }
    layer.peephole = row(7, d);
    return layer;
  }

  ValueId reversed(ValueId value) {
    if (lengths_.valid()) {
      return call_.add("ReverseSequence", {value, lengths_},
                       with_attr(with_attr("time_axis", kZero), "batch_axis", kOne));
    }
    constexpr std::int64_t kBeyond = std::numeric_limits<std::int64_t>::min();
    return call_.add("Slice", {value, call_.ints({-1}), call_.ints({kBeyond}), call_.ints({0}), call_.ints({-1})});
  }

  ValueId initial(std::size_t operand, std::size_t d) {
    const ValueId given = row(operand, d, attrs_.batch_first ? 1 : 0);
    if (given.valid()) return given;
    const Dim& hidden = call_.in_type(2).shape.at(2);
    if (!hidden.known()) throw Unsupported("the gradient needs the number of hidden units, which is not known");
    const ValueId batch = call_.add("Shape", {x_}, with_attr(with_attr("start", kOne), "end", std::int64_t{2}));
    const ValueId sizes = call_.add("Concat", {batch, call_.ints({hidden.size})}, with_attr("axis", kZero));
    const double zero[] = {0};
    return call_.add("ConstantOfShape", {sizes},
                     with_attr("value", make_constant(from_elements<double>(call_.dtype(), {1}, zero))));
  }

  Sequence one_direction(std::size_t d, std::size_t directions, bool backward) {
    const Layer layer = layer_of(d, directions);
    const ValueId x = backward ? reversed(x_) : x_;
    std::vector<ValueId> inputs = {initial(5, d)};
    if (kind_.has_cell) inputs.push_back(initial(6, d));
    const std::size_t states = inputs.size();
    inputs.push_back(with_bias(call_, call_.add("MatMul", {x, layer.weights}), layer.w_bias));
    if (inside_.valid()) inputs.push_back(inside_);
    const BodyId body = step_body(layer, inputs, states);
    const auto scanned = static_cast<std::int64_t>(inputs.size() - states);
    const std::vector<ValueId> results =
        call_.add_all("Scan", inputs, states + 1, with_attr(with_attr("body", body), "num_scan_inputs", scanned));
    Sequence sequence{.y = results.back(), .last = {.h = results[0]}};
    if (kind_.has_cell) sequence.last.c = results[1];
    if (backward) sequence.y = reversed(sequence.y);
    return sequence;
  }

  // A step beyond the end of a sequence gives zero and keeps the state.
  BodyId step_body(const Layer& layer, const std::vector<ValueId>& operands, std::size_t states) {
    NodeWriter& writer = call_.writer();
    const BodyId body = writer.begin_body();
    std::vector<ValueId> arguments;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Type type = call_.type(operands[i]);
      if (i >= states && type.ranked) type.shape.erase(type.shape.begin());
      arguments.push_back(writer.add_body_input(type));
    }
    const State before{.h = arguments[0], .c = kind_.has_cell ? arguments[1] : ValueId{}};
    State after = kind_.step(call_, layer, arguments[states], before);
    ValueId y = call_.add("Identity", {after.h});
    if (inside_.valid()) {
      const ValueId inside = arguments.back();
      y = call_.add("Where", {inside, after.h, call_.scalar(0)});
      after.h = call_.add("Where", {inside, after.h, before.h});
      if (kind_.has_cell) after.c = call_.add("Where", {inside, after.c, before.c});
    }
    std::vector<ValueId> outputs = {after.h};
    if (kind_.has_cell) outputs.push_back(after.c);
    outputs.push_back(y);
    writer.end_body(std::move(outputs));
    return body;
  }

  BuildCall& call_;
  const CellKind& kind_;
  RecurrentAttrs attrs_;
  ValueId x_ = {};        // [time, batch, input]
  ValueId lengths_ = {};  // [batch], invalid when all sequences are as long as the tensor
  ValueId inside_ = {};   // [time, batch, 1]: whether the step is part of the sequence
};

}  // namespace

void rnn_gradient(BuildCall& call) {
  const CellKind kind{.step = rnn_step, .activations = {"Tanh"}};
  Definition(call, kind).give();
}

void gru_gradient(BuildCall& call) {
  const CellKind kind{.step = gru_step, .gates = 3, .activations = {"Sigmoid", "Tanh"}};
  Definition(call, kind).give();
}

void lstm_gradient(BuildCall& call) {
  const CellKind kind{.step = lstm_step, .gates = 4, .has_cell = true, .activations = {"Sigmoid", "Tanh", "Tanh"}};
  Definition(call, kind).give();
}

}  // namespace finity
