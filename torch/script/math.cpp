// Arithmetic, functions, comparisons, reductions and losses.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "torch/script/call.h"

namespace finity {

namespace {

// PyTorch computes these of integers in float32.
ValueId as_float(ScriptCall& call, ValueId x) {
  const DType dtype = call.dtype(x);
  return is_float(dtype) || dtype == DType::undefined ? x : call.cast(x, DType::float32);
}

template <OpName Op>
void same(ScriptCall& call) {
  call.give(call.add(Op.letters, {call.tensor("self")}));
}

template <OpName Op>
void of_float(ScriptCall& call) {
  call.give(call.add(Op.letters, {as_float(call, call.tensor("self"))}));
}

template <OpName Op>
void own(ScriptCall& call) {
  call.give(call.add(Op.letters, {as_float(call, call.tensor("self"))}, {}, "finity"));
}

// Numbers of the script are called a and b.
std::pair<ValueId, ValueId> operands(ScriptCall& call) {
  return call.has("a") ? call.alike("a", "b") : call.alike("self", "other");
}

template <OpName Op>
void binary(ScriptCall& call) {
  const auto [a, b] = operands(call);
  call.give(call.add(Op.letters, {a, b}));
}

// self op alpha * other
template <OpName Op>
void scaled_binary(ScriptCall& call) {
  auto [a, b] = operands(call);
  const double alpha = call.real("alpha", 1);
  if (alpha != 1) b = call.add("Mul", {b, call.number_like(alpha, b)});
  call.give(call.add(Op.letters, {a, b}));
}

void reversed_sub(ScriptCall& call) {
  auto [a, b] = call.alike("self", "other");
  const double alpha = call.real("alpha", 1);
  if (alpha != 1) a = call.add("Mul", {a, call.number_like(alpha, a)});
  call.give(call.add("Sub", {b, a}));
}

void division(ScriptCall& call) {
  if (call.has("rounding_mode")) throw Unsupported("divides and rounds");
  const auto [a, b] = call.alike("self", "other");
  call.give(call.add("Div", {as_float(call, a), as_float(call, b)}));
}

void power(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "exponent");
  call.give(call.add("Pow", {a, b}));
}

void unequal(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "other");
  call.give(call.add("Not", {call.add("Equal", {a, b})}));
}

void clamp(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const auto bound = [&](const char* name) {
    return call.has(name) ? call.cast(call.tensor(name), call.dtype(x)) : ValueId{};
  };
  call.give(call.add("Clip", {x, bound("min"), bound("max")}));
}

void hard_tanh(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Clip",
                     {x, call.number_like(call.real("min_val", -1), x), call.number_like(call.real("max_val", 1), x)}));
}

void relu6(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Clip", {x, call.number_like(0, x), call.number_like(6, x)}));
}

float number(double x) { return static_cast<float>(x); }

void leaky_relu(ScriptCall& call) {
  call.give(call.add("LeakyRelu", {call.tensor("self")}, {{"alpha", number(call.real("negative_slope", 0.01))}}));
}

void elu(ScriptCall& call) {
  if (call.real("scale", 1) != 1 || call.real("input_scale", 1) != 1) throw Unsupported("is scaled");
  call.give(call.add("Elu", {call.tensor("self")}, {{"alpha", number(call.real("alpha", 1))}}));
}

void gelu(ScriptCall& call) {
  call.give(call.add("Gelu", {call.tensor("self")}, {{"approximate", call.text("approximate", "none")}}));
}

void silu(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Mul", {x, call.add("Sigmoid", {x})}));
}

void hard_sigmoid(ScriptCall& call) {
  call.give(call.add("HardSigmoid", {call.tensor("self")}, {{"alpha", number(1.0 / 6)}, {"beta", 0.5F}}));
}

void softplus(ScriptCall& call) {
  if (call.real("beta", 1) != 1) throw Unsupported("has a slope of its own");
  call.give(call.add("Softplus", {call.tensor("self")}));
}

void log_sigmoid(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Neg", {call.add("Softplus", {call.add("Neg", {x})})}));
}

template <int Base>
void log_to_base(ScriptCall& call) {
  const ValueId log = call.add("Log", {as_float(call, call.tensor("self"))});
  call.give(call.add("Mul", {log, call.number_like(1 / std::log(Base), log)}));
}

void square(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Mul", {x, x}));
}

void where(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "other");
  call.give(call.add("Where", {call.tensor("condition"), a, b}));
}

void masked_fill(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Where", {call.tensor("mask"), call.cast(call.tensor("value"), call.dtype(x)), x}));
}

// ---- rows ---------------------------------------------------------------------------------------------------

template <OpName Op>
void softmax(ScriptCall& call) {
  ValueId x = call.tensor("self");
  if (call.has("dtype")) throw Unsupported("changes the element type");
  call.give(call.add(Op.letters, {x}, {{"axis", call.integer("dim")}}));
}

// Without axes over all; axes are an operand.
template <OpName Op>
void reduce(ScriptCall& call) {
  if (call.has("dtype")) throw Unsupported("changes the element type");
  const ValueId x = call.tensor("self");
  const Ints axes = call.ints("dim", {});
  const std::int64_t keep = call.flag("keepdim") ? 1 : 0;
  call.give(call.add(Op.letters, {x, axes.empty() ? ValueId{} : call.vector_of(axes)}, {{"keepdims", keep}}));
}

// The largest, over all or along an axis; where it stands is a second result.
template <OpName Value, OpName Place, OpName OfTwo>
void extreme(ScriptCall& call) {
  if (call.has("other")) return binary<OfTwo>(call);
  reduce<Value>(call);
  if (call.results < 2) return;
  const std::int64_t keep = call.flag("keepdim") ? 1 : 0;
  call.give(call.add(Place.letters, {call.tensor("self")}, {{"axis", call.integer("dim")}, {"keepdims", keep}}));
}

template <OpName Op>
void place_of(ScriptCall& call) {
  if (!call.has("dim")) throw Unsupported("looks at all elements");
  const std::int64_t keep = call.flag("keepdim") ? 1 : 0;
  call.give(call.add(Op.letters, {call.tensor("self")}, {{"axis", call.integer("dim")}, {"keepdims", keep}}));
}

void norm(ScriptCall& call) {
  const double p = call.has("ord") ? call.real("ord", 2) : call.real("p", 2);
  if (p != 1 && p != 2) throw Unsupported("is a norm of another kind");
  if (p == 1) reduce<"ReduceL1">(call);
  else reduce<"ReduceL2">(call);
}

void cumulative_sum(ScriptCall& call) {
  call.give(call.add("CumSum", {call.tensor("self"), call.vector_of({call.integer("dim")})}));
}

// ---- losses -------------------------------------------------------------------------------------------------

constexpr std::int64_t kNone = 0, kMean = 1;

std::string reduction(const ScriptCall& call) {
  const std::int64_t kind = call.integer("reduction", kMean);
  return kind == kNone ? "none" : kind == kMean ? "mean" : "sum";
}

template <OpName Op>
void class_loss(ScriptCall& call) {
  if (call.real("label_smoothing", 0) != 0) throw Unsupported("smooths labels");
  const std::string over = reduction(call);
  call.give(call.add(Op.letters, {call.tensor("self"), call.tensor("target"), call.optional_tensor("weight")},
                     {{"reduction", over}, {"ignore_index", call.integer("ignore_index", -100)}}));
}

void reduce_loss(ScriptCall& call, ValueId each) {
  const std::string over = reduction(call);
  if (over == "none") call.give(each);
  else call.give(call.add(over == "mean" ? "ReduceMean" : "ReduceSum", {each}, {{"keepdims", std::int64_t{0}}}));
}

void squared_error(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "target");
  const ValueId apart = call.add("Sub", {a, b});
  reduce_loss(call, call.add("Mul", {apart, apart}));
}

void absolute_error(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "target");
  reduce_loss(call, call.add("Abs", {call.add("Sub", {a, b})}));
}

constexpr ScriptLowering kEntries[] = {
    {"relu", same<"Relu">},
    {"abs", same<"Abs">},
    {"neg", same<"Neg">},
    {"floor", same<"Floor">},
    {"ceil", same<"Ceil">},
    {"round", same<"Round">},
    {"sign", same<"Sign">},
    {"selu", same<"Selu">},
    {"mish", same<"Mish">},
    {"hardswish", same<"HardSwish">},
    {"softsign", same<"Softsign">},
    {"logical_not", same<"Not">},
    {"sigmoid", of_float<"Sigmoid">},
    {"tanh", of_float<"Tanh">},
    {"exp", of_float<"Exp">},
    {"log", of_float<"Log">},
    {"sqrt", of_float<"Sqrt">},
    {"reciprocal", of_float<"Reciprocal">},
    {"sin", of_float<"Sin">},
    {"cos", of_float<"Cos">},
    {"tan", of_float<"Tan">},
    {"asin", of_float<"Asin">},
    {"acos", of_float<"Acos">},
    {"atan", of_float<"Atan">},
    {"sinh", of_float<"Sinh">},
    {"cosh", of_float<"Cosh">},
    {"erf", of_float<"Erf">},
    {"log1p", own<"Log1p">},
    {"expm1", own<"Expm1">},
    {"rsqrt", own<"Rsqrt">},
    {"log2", log_to_base<2>},
    {"log10", log_to_base<10>},
    {"square", square},
    {"add", scaled_binary<"Add">},
    {"sub", scaled_binary<"Sub">},
    {"rsub", reversed_sub},
    {"mul", binary<"Mul">},
    {"div", division},
    {"true_divide", division},
    {"pow", power},
    {"maximum", binary<"Max">},
    {"minimum", binary<"Min">},
    {"eq", binary<"Equal">},
    {"ne", unequal},
    {"lt", binary<"Less">},
    {"gt", binary<"Greater">},
    {"le", binary<"LessOrEqual">},
    {"ge", binary<"GreaterOrEqual">},
    {"logical_and", binary<"And">},
    {"logical_or", binary<"Or">},
    {"clamp", clamp},
    {"clamp_min", clamp},
    {"clamp_max", clamp},
    {"hardtanh", hard_tanh},
    {"relu6", relu6},
    {"leaky_relu", leaky_relu},
    {"elu", elu},
    {"gelu", gelu},
    {"silu", silu},
    {"hardsigmoid", hard_sigmoid},
    {"softplus", softplus},
    {"log_sigmoid", log_sigmoid},
    {"where", where},
    {"masked_fill", masked_fill},
    {"softmax", softmax<"Softmax">},
    {"log_softmax", softmax<"LogSoftmax">},
    {"mean", reduce<"ReduceMean">},
    {"sum", reduce<"ReduceSum">},
    {"prod", reduce<"ReduceProd">},
    {"amax", reduce<"ReduceMax">},
    {"amin", reduce<"ReduceMin">},
    {"logsumexp", reduce<"ReduceLogSumExp">},
    {"max", extreme<"ReduceMax", "ArgMax", "Max">},
    {"min", extreme<"ReduceMin", "ArgMin", "Min">},
    {"argmax", place_of<"ArgMax">},
    {"argmin", place_of<"ArgMin">},
    {"norm", norm},
    {"linalg_vector_norm", norm},
    {"frobenius_norm", norm},
    {"cumsum", cumulative_sum},
    {"nll_loss", class_loss<"NegativeLogLikelihoodLoss">},
    {"nll_loss_nd", class_loss<"NegativeLogLikelihoodLoss">},
    {"nll_loss2d", class_loss<"NegativeLogLikelihoodLoss">},
    {"cross_entropy_loss", class_loss<"SoftmaxCrossEntropyLoss">},
    {"mse_loss", squared_error},
    {"l1_loss", absolute_error},
};

}  // namespace

std::span<const ScriptLowering> script_math() { return kEntries; }

}  // namespace finity
