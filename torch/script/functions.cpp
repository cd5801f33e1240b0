// Activation functions.
#include <vector>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

void hard_tanh(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Clip",
                     {x, call.number_like(call.real("min_val", -1), x), call.number_like(call.real("max_val", 1), x)}));
}

void relu6(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Clip", {x, call.number_like(0, x), call.number_like(6, x)}));
}

void leaky_relu(ScriptCall& call) {
  call.give(call.add("LeakyRelu", {call.tensor("self")}, {{"alpha", number(call.real("negative_slope", 0.01))}}));
}

// Outside of training the slope is the middle of its range.
void random_relu(ScriptCall& call) {
  if (call.flag("training")) throw Unsupported("is in training mode");
  const double slope = (call.real("lower", 1.0 / 8) + call.real("upper", 1.0 / 3)) / 2;
  call.give(call.add("LeakyRelu", {call.tensor("self")}, {{"alpha", number(slope)}}));
}

// A slope for every channel, which is the second axis.
void parametric_relu(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  ValueId slope = call.tensor("weight");
  const Dims dims = call.dims(slope);
  if (element_count(dims) != 1) {
    Ints shape(call.rank(x) - 1, 1);
    shape.at(0) = element_count(dims);
    slope = call.add("Reshape", {slope, call.vector_of(shape)});
  } else {
    slope = call.add("Reshape", {slope, call.vector_of({1})});
  }
  call.give(call.add("PRelu", {x, slope}));
}

void elu(ScriptCall& call) {
  if (call.real("scale", 1) != 1 || call.real("input_scale", 1) != 1) throw Unsupported("is scaled");
  call.give(call.add("Elu", {call.tensor("self")}, {{"alpha", number(call.real("alpha", 1))}}));
}

void celu(ScriptCall& call) {
  call.give(call.add("Celu", {call.tensor("self")}, {{"alpha", number(call.real("alpha", 1))}}));
}

void gelu(ScriptCall& call) {
  call.give(call.add("Gelu", {call.tensor("self")}, {{"approximate", call.text("approximate", "none")}}));
}

void silu(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Mul", {x, call.add("Sigmoid", {x})}));
}

// One half, times the sigmoid of the other.
void gated_linear(ScriptCall& call) {
  const std::vector<ValueId> parts = call.add_many(
      "Split", {call.tensor("self")}, {{"axis", call.integer("dim", -1)}, {"num_outputs", std::int64_t{2}}}, 2);
  call.give(call.add("Mul", {parts[0], call.add("Sigmoid", {parts[1]})}));
}

void hard_sigmoid(ScriptCall& call) {
  call.give(call.add("HardSigmoid", {call.tensor("self")}, {{"alpha", number(1.0 / 6)}, {"beta", 0.5F}}));
}

// log(1 + exp(beta x)) / beta, and x itself above the threshold
void softplus(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const double beta = call.real("beta", 1), threshold = call.real("threshold", 20);
  if (beta == 1 && threshold >= 20) return call.give(call.add("Softplus", {x}));
  const ValueId steep = call.add("Mul", {x, call.number_like(beta, x)});
  const ValueId soft = call.add("Div", {call.add("Softplus", {steep}), call.number_like(beta, x)});
  call.give(call.add("Where", {call.add("Greater", {steep, call.number_like(threshold, x)}), x, soft}));
}

void log_sigmoid(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Neg", {call.add("Softplus", {call.add("Neg", {x})})}));
}

void threshold(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const ValueId below = call.add("LessOrEqual", {x, call.number_like(call.real("threshold", 0), x)});
  call.give(call.add("Where", {below, call.number_like(call.real("value", 0), x), x}));
}

// NaN stays.
void hard_shrink(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const double bound = call.real("lambd", 0.5);
  const ValueId inside = call.add("And", {call.add("GreaterOrEqual", {x, call.number_like(-bound, x)}),
                                          call.add("LessOrEqual", {x, call.number_like(bound, x)})});
  call.give(call.add("Where", {inside, call.number_like(0, x), x}));
}

void soft_shrink(ScriptCall& call) {
  const float bound = number(call.real("lambd", 0.5));
  call.give(call.add("Shrink", {call.tensor("self")}, {{"bias", bound}, {"lambd", bound}}));
}

constexpr ScriptLowering kEntries[] = {
    {"relu", same<"Relu">},
    {"selu", same<"Selu">},
    {"mish", same<"Mish">},
    {"hardswish", same<"HardSwish">},
    {"softsign", same<"Softsign">},
    {"sigmoid", of_float<"Sigmoid">},
    {"special_expit", of_float<"Sigmoid">},
    {"tanh", of_float<"Tanh">},
    {"hardtanh", hard_tanh},
    {"relu6", relu6},
    {"leaky_relu", leaky_relu},
    {"rrelu", random_relu},
    {"prelu", parametric_relu},
    {"elu", elu},
    {"celu", celu},
    {"gelu", gelu},
    {"silu", silu},
    {"glu", gated_linear},
    {"hardsigmoid", hard_sigmoid},
    {"softplus", softplus},
    {"log_sigmoid", log_sigmoid},
    {"threshold", threshold},
    {"hardshrink", hard_shrink},
    {"softshrink", soft_shrink},
};

}  // namespace

std::span<const ScriptLowering> script_functions() { return kEntries; }

}  // namespace finity
