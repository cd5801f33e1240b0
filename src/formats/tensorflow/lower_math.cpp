// Elementwise ops: arithmetic, comparisons, choices, and the gradients of activations.
#include <cmath>

#include "formats/tensorflow/emit.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

// ---- arithmetic ------------------------------------------------------------

void lower_squared_difference(TfCall& call) {
  Emit emit(call);
  const ValueId difference = emit.difference(call.in(0), call.in(1));
  call.give(emit.product(difference, difference));
}

void lower_square(TfCall& call) { call.give(Emit(call).product(call.in(0), call.in(0))); }

// Where gradients of an array meet, TensorFlow adds their flows, which are scalars to it and the arrays themselves
// here.
void give_sum(TfCall& call, ValueId sum) {
  bool array = false;
  for (std::size_t i = 0; i < call.input_count(); ++i) array = array || call.value(i).array;
  call.give(0, TfValue{.id = sum, .array = array});
}

void lower_add(TfCall& call) { give_sum(call, call.add("Add", {call.in(0), call.in(1)})); }

// The table's Sum is of floats.
void lower_add_n(TfCall& call) {
  Emit emit(call);
  const std::vector<ValueId> terms = call.tensors(0, call.input_count());
  if (terms.empty()) throw Unsupported("it adds nothing");
  if (terms.size() == 1) return give_sum(call, emit.add("Identity", {terms[0]}));
  if (is_float(call.dtype_of(terms[0]))) return give_sum(call, emit.add("Sum", terms));
  ValueId total = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) total = emit.sum(total, terms[i]);
  call.give(total);
}

void lower_floor_mod(TfCall& call) {
  if (is_float(call.dtype_of(call.in(0)))) return call.give(call.add("finity:FloorMod", {call.in(0), call.in(1)}));
  call.give(call.add("Mod", {call.in(0), call.in(1)}));
}

void lower_truncated_mod(TfCall& call) { call.give(call.add("Mod", {call.in(0), call.in(1)}, {{"fmod", 1}})); }

// Of floats the quotient loses its fraction.
void lower_truncated_div(TfCall& call) {
  Emit emit(call);
  const ValueId quotient = emit.quotient(call.in(0), call.in(1));
  if (!is_float(call.dtype_of(quotient))) return call.give(quotient);
  const ValueId down = emit.add("Floor", {quotient}), up = emit.add("Ceil", {quotient});
  call.give(emit.where(emit.add("Less", {quotient, emit.number_like(0, quotient)}), up, down));
}

// The table has an op for each derivative: their number must be known.
void lower_polygamma(TfCall& call) {
  const Tensor* known = call.known(call.in(0));
  if (known == nullptr || known->size() != 1) throw Unsupported("the number of the derivative is not known");
  const double n = element_as_double(*known, 0);
  if (n == 0) return call.give(call.add("finity:Digamma", {call.in(1)}));
  if (!(n >= 1 && n <= 128 && n == std::floor(n))) throw Unsupported("its derivative is none of the first 128");
  call.give(call.add("finity:Polygamma", {call.in(1)}, {{"n", static_cast<std::int64_t>(n)}}));
}

// f(y) times x, and 0 where x is 0 whatever y is.
template <OpName Function, bool kDivides>
void lower_zero_safe(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), zero = emit.number_like(0, x);
  const ValueId is_zero = emit.add("Equal", {x, zero});
  const ValueId y = emit.where(is_zero, emit.number_like(1, x), call.in(1));
  const ValueId image = Function.letters[0] == '\0' ? y : emit.add(Function.letters, {y});
  call.give(emit.where(is_zero, zero, kDivides ? emit.quotient(x, image) : emit.product(x, image)));
}

void lower_mul_no_nan(TfCall& call) {
  Emit emit(call);
  const ValueId y = call.in(1), zero = emit.number_like(0, y);
  const ValueId is_zero = emit.add("Equal", {y, zero});
  const ValueId x = emit.where(is_zero, zero, call.in(0));
  call.give(emit.product(x, y));
}

void lower_clip(TfCall& call) {
  Emit emit(call);
  const auto plain = [&](ValueId bound) { return emit.ranked(bound) && emit.rank(bound) == 0; };
  if (plain(call.in(1)) && plain(call.in(2))) return call.give(emit.add("Clip", call.tensors(0, 3)));
  call.give(emit.add("Min", {emit.add("Max", {call.in(0), call.in(1)}), call.in(2)}));
}

void lower_leaky_relu(TfCall& call) {
  call.give(call.add("LeakyRelu", {call.in(0)}, {{"alpha", static_cast<float>(call.real("alpha", 0.2))}}));
}

// One slope per element or channel.
void lower_prelu(TfCall& call) { call.give(call.add("PRelu", {call.in(0), call.in(1)})); }

void lower_elu(TfCall& call) { call.give(call.add("Elu", {call.in(0)}, {{"alpha", 1.0F}})); }

void lower_relu6(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0);
  call.give(emit.add("Clip", {x, emit.number_like(0, x), emit.number_like(6, x)}));
}

void lower_cast(TfCall& call) {
  const DType to = call.dtype("DstT");
  if (to == DType::undefined) throw Unsupported("the type it casts to is not known");
  if (call.in_type(0).dtype == to) return call.give(call.add("Identity", {call.in(0)}));
  call.give(call.cast(call.in(0), to));
}

void lower_approximate_equal(TfCall& call) {
  Emit emit(call);
  const ValueId distance = emit.add("Abs", {emit.difference(call.in(0), call.in(1))});
  call.give(emit.add("Less", {distance, emit.number_like(call.real("tolerance", 1e-5), distance)}));
}

// Whole numbers that stand for the ones between two limits.
void lower_dequantize(TfCall& call) {
  Emit emit(call);
  if (call.integer("axis", -1) >= 0) throw Unsupported("each slice has limits of its own");
  const DType stored = call.dtype_of(call.in(0)), dtype = call.dtype("dtype");
  const auto lowest = static_cast<double>(int_min(stored)), highest = static_cast<double>(int_max(stored));
  const ValueId x = emit.cast(call.in(0), DType::float32), from = call.in(1), to = call.in(2);
  const auto number = [&](double value) { return emit.number(value, DType::float32); };
  ValueId result = {};
  if (call.text("mode", "MIN_COMBINED") == "SCALED") {
    ValueId scale = emit.quotient(to, number(highest));
    const double least = lowest + (call.flag("narrow_range", false) ? 1 : 0);
    if (lowest < 0) scale = emit.add("Max", {emit.quotient(from, number(least)), scale});
    result = emit.product(x, scale);
  } else {
    const ValueId steps = lowest == 0 ? x : emit.difference(x, number(lowest));
    const ValueId step = emit.quotient(emit.difference(to, from), number(highest - lowest));
    result = emit.sum(emit.product(steps, step), from);
  }
  call.give(emit.cast(result, dtype == DType::undefined ? DType::float32 : dtype));
}

// ---- choices ---------------------------------------------------------------

// With as many axes as `like` has, those that are added of size 1 and last.
ValueId with_axes_of(Emit& emit, ValueId x, ValueId like) {
  const ValueId sizes = emit.shape(x);
  const ValueId missing = emit.difference(emit.add("Size", {emit.shape(like)}), emit.add("Size", {sizes}));
  const ValueId count = emit.unsqueeze(emit.add("Max", {missing, emit.whole(0)}), {0});
  return emit.reshape(x, emit.concat({sizes, emit.filled(count, 1, DType::int64)}, 0));
}

// Version 1 does not broadcast: a vector chooses whole rows.
void lower_select(TfCall& call) {
  Emit emit(call);
  ValueId condition = call.in(0);
  const ValueId yes = call.in(1), no = call.in(2);
  const Type& choice = emit.type(emit.ranked(yes) ? yes : no);
  if (!emit.ranked(condition)) {
    // All shapes are equal unless it is a scalar or a vector: then broadcasting would do the same.
    if (!choice.ranked || choice.shape.size() > 1) condition = with_axes_of(emit, condition, yes);
  } else if (emit.rank(condition) == 1) {
    if (!choice.ranked) throw Unsupported("the rank of what is chosen from is not known");
    std::vector<std::int64_t> axes;
    for (std::size_t i = 1; i < choice.shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    condition = emit.unsqueeze(condition, axes);
  }
  call.give(emit.where(condition, yes, no));
}

// ---- gradients of activations ----------------------------------------------

// TensorFlow multiplies by 0 or 1, so that an infinite gradient becomes NaN where none should flow.
void give_masked(TfCall& call, ValueId gradient, ValueId mask) {
  Emit emit(call);
  call.give(emit.product(gradient, emit.cast(mask, call.dtype_of(gradient))));
}

void lower_relu_grad(TfCall& call) {
  Emit emit(call);
  give_masked(call, call.in(0), emit.add("Greater", {call.in(1), emit.number_like(0, call.in(1))}));
}

void lower_relu6_grad(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(1);
  const ValueId above = emit.add("Greater", {x, emit.number_like(0, x)});
  const ValueId below = emit.add("Less", {x, emit.number_like(6, x)});
  give_masked(call, call.in(0), emit.add("And", {above, below}));
}

void lower_leaky_relu_grad(TfCall& call) {
  Emit emit(call);
  const ValueId gradient = call.in(0), x = call.in(1);
  const ValueId leak = emit.product(emit.number_like(call.real("alpha", 0.2), gradient), gradient);
  call.give(emit.where(emit.add("Greater", {x, emit.number_like(0, x)}), gradient, leak));
}

void lower_softsign_grad(TfCall& call) {
  Emit emit(call);
  const ValueId distance = emit.sum(emit.number_like(1, call.in(1)), emit.add("Abs", {call.in(1)}));
  call.give(emit.quotient(call.in(0), emit.product(distance, distance)));
}

constexpr Lowering kMath[] = {
    {.op = "Abs", .lower = same<"Abs">},
    {.op = "Acos", .lower = same<"Acos">},
    {.op = "Acosh", .lower = same<"Acosh">},
    {.op = "Add", .lower = lower_add},
    {.op = "AddN", .lower = lower_add_n},
    {.op = "AddV2", .lower = lower_add},
    {.op = "AccumulateNV2", .lower = lower_add_n},
    {.op = "ApproximateEqual", .lower = lower_approximate_equal},
    {.op = "Asin", .lower = same<"Asin">},
    {.op = "Asinh", .lower = same<"Asinh">},
    {.op = "Atan", .lower = same<"Atan">},
    {.op = "Atan2", .lower = same<"finity:Atan2">},
    {.op = "Atanh", .lower = same<"Atanh">},
    {.op = "BitwiseAnd", .lower = same<"BitwiseAnd">},
    {.op = "BitwiseOr", .lower = same<"BitwiseOr">},
    {.op = "BitwiseXor", .lower = same<"BitwiseXor">},
    {.op = "Cast", .lower = lower_cast},
    {.op = "Ceil", .lower = same<"Ceil">},
    {.op = "ClipByValue", .lower = lower_clip},
    {.op = "Cos", .lower = same<"Cos">},
    {.op = "Cosh", .lower = same<"Cosh">},
    {.op = "Dequantize", .lower = lower_dequantize},
    {.op = "Digamma", .lower = same<"finity:Digamma">},
    {.op = "Div", .lower = same<"Div">},
    {.op = "DivNoNan", .lower = same<"finity:DivNoNan">},
    {.op = "Elu", .lower = lower_elu},
    {.op = "EluGrad", .lower = formula<"Where(Less(b, 0), Mul(Add(b, 1), a), a)">},
    {.op = "Equal", .lower = same<"Equal">},
    {.op = "Erf", .lower = same<"Erf">},
    {.op = "Erfc", .lower = same<"finity:Erfc">},
    {.op = "Exp", .lower = same<"Exp">},
    {.op = "Expm1", .lower = same<"finity:Expm1">},
    {.op = "Floor", .lower = same<"Floor">},
    {.op = "FloorDiv", .lower = same<"finity:FloorDiv">},
    {.op = "FloorMod", .lower = lower_floor_mod},
    {.op = "Greater", .lower = same<"Greater">},
    {.op = "GreaterEqual", .lower = same<"GreaterOrEqual">},
    {.op = "Inv", .lower = same<"Reciprocal">},
    {.op = "InvGrad", .lower = formula<"Neg(Mul(b, Mul(a, a)))">},
    {.op = "Invert", .lower = same<"BitwiseNot">},
    {.op = "IsFinite", .lower = formula<"Not(Or(IsNaN(a), IsInf(a)))">},
    {.op = "IsInf", .lower = same<"IsInf">},
    {.op = "IsNan", .lower = same<"IsNaN">},
    {.op = "LeakyRelu", .lower = lower_leaky_relu},
    {.op = "LeakyReluGrad", .lower = lower_leaky_relu_grad},
    {.op = "Less", .lower = same<"Less">},
    {.op = "LessEqual", .lower = same<"LessOrEqual">},
    {.op = "Lgamma", .lower = same<"finity:Lgamma">},
    {.op = "Log", .lower = same<"Log">},
    {.op = "Log1p", .lower = same<"finity:Log1p">},
    {.op = "LogicalAnd", .lower = same<"And">},
    {.op = "LogicalNot", .lower = same<"Not">},
    {.op = "LogicalOr", .lower = same<"Or">},
    {.op = "Maximum", .lower = same<"Max">},
    {.op = "Minimum", .lower = same<"Min">},
    {.op = "Mod", .lower = lower_truncated_mod},
    {.op = "Mul", .lower = same<"Mul">},
    {.op = "MulNoNan", .lower = lower_mul_no_nan},
    {.op = "Neg", .lower = same<"Neg">},
    {.op = "NotEqual", .lower = formula<"Not(Equal(a, b))">},
    {.op = "Polygamma", .lower = lower_polygamma},
    {.op = "Pow", .lower = same<"Pow">},
    {.op = "Prelu", .lower = lower_prelu},
    {.op = "RealDiv", .lower = same<"Div">},
    {.op = "Reciprocal", .lower = same<"Reciprocal">},
    {.op = "ReciprocalGrad", .lower = formula<"Neg(Mul(b, Mul(a, a)))">},
    {.op = "Relu", .lower = same<"Relu">},
    {.op = "Relu6", .lower = lower_relu6},
    {.op = "Relu6Grad", .lower = lower_relu6_grad},
    {.op = "ReluGrad", .lower = lower_relu_grad},
    {.op = "Rint", .lower = same<"Round">},
    {.op = "Round", .lower = same<"Round">},
    {.op = "Rsqrt", .lower = same<"finity:Rsqrt">},
    {.op = "RsqrtGrad", .lower = formula<"Mul(Mul(b, -0.5), Mul(Mul(a, a), a))">},
    {.op = "Select", .lower = lower_select},
    {.op = "SelectV2", .lower = same<"Where">},
    {.op = "Selu", .lower = same<"Selu">},
    {.op = "SeluGrad",
     .lower = formula<"Where(Less(b, 0), Mul(a, Add(b, 1.7580993408473766)), Mul(a, 1.0507009873554805))">},
    {.op = "Sigmoid", .lower = same<"Sigmoid">},
    {.op = "SigmoidGrad", .lower = formula<"Mul(b, Mul(a, Sub(1, a)))">},
    {.op = "Sign", .lower = same<"Sign">},
    {.op = "Sin", .lower = same<"Sin">},
    {.op = "Sinh", .lower = same<"Sinh">},
    {.op = "Softplus", .lower = same<"Softplus">},
    {.op = "SoftplusGrad", .lower = formula<"Mul(a, Sigmoid(b))">},
    {.op = "Softsign", .lower = same<"Softsign">},
    {.op = "SoftsignGrad", .lower = lower_softsign_grad},
    {.op = "Sqrt", .lower = same<"Sqrt">},
    {.op = "SqrtGrad", .lower = formula<"Div(Mul(b, 0.5), a)">},
    {.op = "Square", .lower = lower_square},
    {.op = "SquaredDifference", .lower = lower_squared_difference},
    {.op = "Sub", .lower = same<"Sub">},
    {.op = "Tan", .lower = same<"Tan">},
    {.op = "Tanh", .lower = same<"Tanh">},
    {.op = "TanhGrad", .lower = formula<"Mul(b, Sub(1, Mul(a, a)))">},
    {.op = "TruncateDiv", .lower = lower_truncated_div},
    {.op = "TruncateMod", .lower = lower_truncated_mod},
    {.op = "Xdivy", .lower = lower_zero_safe<"", true>},
    {.op = "Xlog1py", .lower = lower_zero_safe<"finity:Log1p", false>},
    {.op = "Xlogy", .lower = lower_zero_safe<"Log", false>},
};

}  // namespace

std::span<const Lowering> math_lowerings() { return kMath; }

}  // namespace finity::tensorflow
