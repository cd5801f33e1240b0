// Arithmetic, elementary functions, comparisons.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

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

void floored_division(ScriptCall& call) {
  const auto [a, b] = operands(call);
  if (!is_int(call.dtype(a))) throw Unsupported("rounds a quotient of floats");
  call.give(call.add("FloorDiv", {a, b}, {}, kOwn));
}

void division(ScriptCall& call) {
  const auto [a, b] = operands(call);
  const std::string rounding = call.text("rounding_mode", "");
  if (rounding == "floor") return floored_division(call);
  if (rounding == "trunc") {
    const ValueId quotient = call.add("Div", {a, b});
    return call.give(is_int(call.dtype(a)) ? quotient : truncated(call, quotient));
  }
  call.give(call.add("Div", {as_float(call, a), as_float(call, b)}));
}

// With the sign of the divisor.
void remainder(ScriptCall& call) {
  const auto [a, b] = operands(call);
  if (is_int(call.dtype(a))) call.give(call.add("Mod", {a, b}));
  else call.give(call.add("FloorMod", {a, b}, {}, kOwn));
}

void truncated_remainder(ScriptCall& call) {
  const auto [a, b] = operands(call);
  call.give(call.add("Mod", {a, b}, {{"fmod", std::int64_t{1}}}));
}

void power(ScriptCall& call) {
  if (call.gives_number) {
    const ValueId a = call.tensor("a"), b = call.tensor("b");
    return call.give(call.add("Pow", {as_float(call, a), as_float(call, b)}));
  }
  const auto [a, b] = call.alike("self", "exponent");
  const DType dtype = call.dtype(a);
  if (dtype != DType::undefined && !is_float(dtype)) {
    const Tensor* known = call.known(b);
    if (known == nullptr || known->size() != 1 || elements<std::int64_t>(*known)[0] < 0)
      throw Unsupported("is a power of integers whose exponent may be negative");
  }
  call.give(call.add("Pow", {a, b}));
}

void polygamma(ScriptCall& call) {
  const std::int64_t n = call.integer("n");
  if (n < 0 || n > 128) throw Unsupported("its derivative is none of the first 128");
  const ValueId x = as_float(call, call.tensor("self"));
  call.give(n == 0 ? call.add("Digamma", {x}, {}, kOwn) : call.add("Polygamma", {x}, {{"n", n}}, kOwn));
}

void unequal(ScriptCall& call) {
  const auto [a, b] = operands(call);
  call.give(call.add("Not", {call.add("Equal", {a, b})}));
}

template <OpName Op>
void logical(ScriptCall& call) {
  const bool numbers = call.has("a");
  const ValueId a = call.tensor(numbers ? "a" : "self"), b = call.tensor(numbers ? "b" : "other");
  call.give(call.add(Op.letters, {call.cast(a, DType::boolean), call.cast(b, DType::boolean)}));
}

void logical_not(ScriptCall& call) { call.give(call.add("Not", {call.cast(call.operand(), DType::boolean)})); }

template <OpName OfBits, OpName OfTruth>
void bitwise(ScriptCall& call) {
  const auto [a, b] = operands(call);
  call.give(call.add(call.dtype(a) == DType::boolean ? OfTruth.letters : OfBits.letters, {a, b}));
}

void bitwise_not(ScriptCall& call) {
  const ValueId x = call.operand();
  call.give(call.add(call.dtype(x) == DType::boolean ? "Not" : "BitwiseNot", {x}));
}

// Of a number of the script these make a whole number.
template <OpName Op>
void whole(ScriptCall& call) {
  const ValueId x = call.operand();
  const bool already = call.gives_number && is_int(call.dtype(x));
  const ValueId result = already ? x : call.add(Op.letters, {x});
  call.give(call.gives_number && call.kind == DType::int64 ? call.cast(result, DType::int64) : result);
}

// That of NaN is 0.
void sign(ScriptCall& call) {
  const ValueId x = call.operand(), result = call.add("Sign", {x});
  const DType dtype = call.dtype(x);
  if (dtype == DType::undefined) throw Unsupported("the element type of its operand is not known");
  call.give(is_float(dtype) ? call.add("Where", {call.add("IsNaN", {x}), call.number_like(0, x), result}) : result);
}

void truncation(ScriptCall& call) { call.give(truncated(call, call.operand())); }

void fraction(ScriptCall& call) {
  const ValueId x = call.operand();
  call.give(call.add("Sub", {x, truncated(call, x)}));
}

void rounding(ScriptCall& call) {
  if (call.integer("decimals", 0) != 0) throw Unsupported("rounds to digits");
  call.give(call.add("Round", {call.operand()}));
}

void square(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add("Mul", {x, x}));
}

void power_of_two(ScriptCall& call) {
  const ValueId x = as_float(call, call.tensor("self"));
  call.give(call.add("Pow", {call.number_like(2, x), x}));
}

template <int Base>
void log_to_base(ScriptCall& call) {
  const ValueId log = call.add("Log", {as_float(call, call.tensor("self"))});
  call.give(call.add("Mul", {log, call.number_like(1 / std::log(Base), log)}));
}

void angle(ScriptCall& call) {
  const auto [y, x] = call.alike("self", "other");
  call.give(call.add("Atan2", {as_float(call, y), as_float(call, x)}, {}, kOwn));
}

// log(x / (1 - x)), of x kept away from 0 and 1
void logit(ScriptCall& call) {
  ValueId x = as_float(call, call.tensor("self"));
  if (call.has("eps")) {
    const double eps = call.real("eps", 0);
    x = call.add("Clip", {x, call.number_like(eps, x), call.number_like(1 - eps, x)});
  }
  const ValueId rest = call.add("Sub", {call.number_like(1, x), x});
  call.give(call.add("Log", {call.add("Div", {x, rest})}));
}

bool is_single(ScriptCall& call, ValueId id) { return call.is_ranked(id) && call.rank(id) == 0; }

// Bounds that are numbers are Clip's; others are met element by element.
void clamp(ScriptCall& call) {
  std::vector<ScriptItem> items = {call.argument("self")};
  const bool low = call.has("min"), high = call.has("max");
  if (low) items.push_back(call.argument("min"));
  if (high) items.push_back(call.argument("max"));
  const std::vector<ValueId> ids = call.alike(items);
  const ValueId lo = low ? ids[1] : ValueId{}, hi = high ? ids.back() : ValueId{};
  if ((!low || is_single(call, lo)) && (!high || is_single(call, hi)))
    return call.give(call.add("Clip", {ids[0], lo, hi}));
  ValueId x = ids[0];
  if (low) x = call.add("Max", {x, lo});
  if (high) x = call.add("Min", {x, hi});
  call.give(x);
}

// self + value * tensor1 * tensor2, in this order
template <OpName Op>
void added_to(ScriptCall& call) {
  const std::vector<ValueId> ids =
      call.alike({call.argument("self"), call.argument("tensor1"), call.argument("tensor2")});
  const double value = call.real("value", 1);
  const ValueId scaled = value == 1 ? ids[1] : call.add("Mul", {ids[1], call.number_like(value, ids[1])});
  call.give(call.add("Add", {ids[0], call.add(Op.letters, {scaled, ids[2]})}));
}

// From the end that is nearer.
void interpolation(ScriptCall& call) {
  const std::vector<ValueId> ids = call.alike({call.argument("self"), call.argument("end"), call.argument("weight")});
  const ValueId from = ids[0], to = ids[1], weight = ids[2], one = call.number_like(1, from);
  const ValueId apart = call.add("Sub", {to, from});
  const ValueId near = call.add("Add", {from, call.add("Mul", {weight, apart})});
  const ValueId far = call.add("Sub", {to, call.add("Mul", {apart, call.add("Sub", {one, weight})})});
  call.give(call.add("Where", {call.add("Less", {weight, call.number_like(0.5, weight)}), near, far}));
}

void finite_instead(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (!is_float(call.dtype(x))) return call.give(x);
  const double largest = float_format(call.dtype(x)).max_finite;
  const auto number = [&](const char* name, double otherwise) {
    return call.number_like(call.real(name, otherwise), x);
  };
  const ValueId nan = call.add("Where", {call.add("IsNaN", {x}), number("nan", 0), x});
  const ValueId above = call.add("IsInf", {x}, {{"detect_negative", std::int64_t{0}}});
  const ValueId below = call.add("IsInf", {x}, {{"detect_positive", std::int64_t{0}}});
  const ValueId high = call.add("Where", {above, number("posinf", largest), nan});
  call.give(call.add("Where", {below, number("neginf", -largest), high}));
}

void is_finite(ScriptCall& call) {
  const ValueId x = call.operand();
  call.give(call.add("Not", {call.add("Or", {call.add("IsNaN", {x}), call.add("IsInf", {x})})}));
}

void where(ScriptCall& call) {
  auto [a, b] = call.alike("self", "other");
  if (is_number(call.argument("self")) && is_number(call.argument("other")) && call.dtype(a) == kScriptFloat) {
    a = call.cast(a, DType::float32);  // of two numbers it makes a tensor
    b = call.cast(b, DType::float32);
  }
  call.give(call.add("Where", {call.cast(call.tensor("condition"), DType::boolean), a, b}));
}

void masked_fill(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(call.add(
      "Where", {call.cast(call.tensor("mask"), DType::boolean), call.cast(call.tensor("value"), call.dtype(x)), x}));
}

constexpr ScriptLowering kEntries[] = {
    {"abs", same<"Abs">},
    {"neg", same<"Neg">},
    {"floor", whole<"Floor">},
    {"ceil", whole<"Ceil">},
    {"round", rounding},
    {"sign", sign},
    {"sgn", sign},
    {"trunc", truncation},
    {"fix", truncation},
    {"frac", fraction},
    {"exp", of_float<"Exp">},
    {"exp2", power_of_two},
    {"log", of_float<"Log">},
    {"sqrt", of_float<"Sqrt">},
    {"reciprocal", of_float<"Reciprocal">},
    {"sin", of_float<"Sin">},
    {"cos", of_float<"Cos">},
    {"tan", of_float<"Tan">},
    {"asin", of_float<"Asin">},
    {"arcsin", of_float<"Asin">},
    {"acos", of_float<"Acos">},
    {"arccos", of_float<"Acos">},
    {"atan", of_float<"Atan">},
    {"arctan", of_float<"Atan">},
    {"sinh", of_float<"Sinh">},
    {"cosh", of_float<"Cosh">},
    {"asinh", of_float<"Asinh">},
    {"acosh", of_float<"Acosh">},
    {"atanh", of_float<"Atanh">},
    {"erf", of_float<"Erf">},
    {"erfc", own<"Erfc">},
    {"lgamma", own<"Lgamma">},
    {"digamma", own<"Digamma">},
    {"polygamma", polygamma},
    {"log1p", own<"Log1p">},
    {"expm1", own<"Expm1">},
    {"rsqrt", own<"Rsqrt">},
    {"atan2", angle},
    {"arctan2", angle},
    {"log2", log_to_base<2>},
    {"log10", log_to_base<10>},
    {"logit", logit},
    {"square", square},
    {"add", scaled_binary<"Add">},
    {"sub", scaled_binary<"Sub">},
    {"subtract", scaled_binary<"Sub">},
    {"rsub", reversed_sub},
    {"mul", binary<"Mul">},
    {"multiply", binary<"Mul">},
    {"div", division},
    {"divide", division},
    {"true_divide", division},
    {"floor_divide", floored_division},
    {"floordiv", floored_division},
    {"remainder", remainder},
    {"fmod", truncated_remainder},
    {"pow", power},
    {"maximum", binary<"Max">},
    {"minimum", binary<"Min">},
    {"addcmul", added_to<"Mul">},
    {"addcdiv", added_to<"Div">},
    {"lerp", interpolation},
    {"eq", binary<"Equal">},
    {"ne", unequal},
    {"not_equal", unequal},
    {"lt", binary<"Less">},
    {"gt", binary<"Greater">},
    {"le", binary<"LessOrEqual">},
    {"ge", binary<"GreaterOrEqual">},
    {"logical_and", logical<"And">},
    {"logical_or", logical<"Or">},
    {"logical_xor", logical<"Xor">},
    {"logical_not", logical_not},
    {"__not__", logical_not},
    {"__and__", bitwise<"BitwiseAnd", "And">},
    {"__or__", bitwise<"BitwiseOr", "Or">},
    {"__xor__", bitwise<"BitwiseXor", "Xor">},
    {"bitwise_and", bitwise<"BitwiseAnd", "And">},
    {"bitwise_or", bitwise<"BitwiseOr", "Or">},
    {"bitwise_xor", bitwise<"BitwiseXor", "Xor">},
    {"bitwise_not", bitwise_not},
    {"clamp", clamp},
    {"clip", clamp},
    {"clamp_min", clamp},
    {"clamp_max", clamp},
    {"nan_to_num", finite_instead},
    {"isnan", same<"IsNaN">},
    {"isinf", same<"IsInf">},
    {"isfinite", is_finite},
    {"where", where},
    {"masked_fill", masked_fill},
};

}  // namespace

std::span<const ScriptLowering> script_math() { return kEntries; }

}  // namespace finity
