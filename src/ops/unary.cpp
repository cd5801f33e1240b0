// Elementwise ops of one operand: functions of double for floats, exact for integers.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/families.h"

namespace finity {

namespace {

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";
constexpr std::string_view kNumberToNumber = "(X: T) -> (Y: T) where T: number";
constexpr std::string_view kFloatToBool = "(X: T) -> (Y: bool) where T: float | float8";
// Opsets before 6 carry it; it says nothing about the result.
constexpr std::string_view kConsumed = "consumed_inputs: ints";

double reciprocal(double x) { return 1.0 / x; }
// Half to even: the rounding mode is never changed.
double round_half_even(double x) { return std::nearbyint(x); }

// Negation wraps at the most negative integer: computed unsigned, where overflow is defined.
std::int64_t negated(std::int64_t x) {
  return static_cast<std::int64_t>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}

struct Absolute {
  double operator()(double x) const { return std::abs(x); }
  std::uint64_t operator()(std::uint64_t x) const { return x; }
  std::int64_t operator()(std::int64_t x) const { return x < 0 ? negated(x) : x; }
};

struct Negated {
  double operator()(double x) const { return -x; }
  std::uint64_t operator()(std::uint64_t x) const { return std::uint64_t{0} - x; }
  std::int64_t operator()(std::int64_t x) const { return negated(x); }
};

struct Signum {
  double operator()(double x) const { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); }
  std::uint64_t operator()(std::uint64_t x) const { return x > 0 ? 1 : 0; }
  std::int64_t operator()(std::int64_t x) const { return (x > 0) - (x < 0); }
};

// Opsets 9 to 12 allow integers: their result is truncated like any cast.
struct ErrorFunction {
  template <class C>
  double operator()(C x) const {
    return std::erf(static_cast<double>(x));
  }
};

struct LogicalNot {
  template <class C>
  bool operator()(C x) const {
    return x == C{};
  }
};

struct FlippedBits {
  template <class C>
  C operator()(C x) const {
    if constexpr (std::is_integral_v<C>) return ~x;
    else throw Error("a float has no bits to flip");
  }
};

struct IsNotANumber {
  template <class C>
  bool operator()(C x) const {
    return x != x;
  }
};

template <class F>
void eval_unary(EvalCall& call) {
  call.out(0, map_unary(call.in(0), call.in(0).dtype(), F{}));
}

template <class F>
void eval_predicate(EvalCall& call) {
  call.out(0, map_unary(call.in(0), DType::boolean, F{}));
}

void eval_is_inf(EvalCall& call) {
  const bool negative = call.integer("detect_negative") != 0;
  const bool positive = call.integer("detect_positive") != 0;
  const auto wanted = [&](auto x) {
    const auto real = static_cast<double>(x);
    return std::isinf(real) && (real < 0 ? negative : positive);
  };
  call.out(0, map_unary(call.in(0), DType::boolean, wanted));
}

const OpDef kOps[] = {
    {.name = "Abs",
     .summary = "absolute value; the most negative integer stays itself",
     .signature = kNumberToNumber,
     .attrs = kConsumed,
     .tf = "Abs",
     .infer = infer_same_shape,
     .eval = eval_unary<Absolute>},
    {.name = "Neg",
     .summary = "-x",
     .signature = kNumberToNumber,
     .attrs = kConsumed,
     .tf = "Neg",
     .infer = infer_same_shape,
     .eval = eval_unary<Negated>},
    {.name = "Sign",
     .since = 9,
     .summary = "-1, 0 or 1 by the sign of x",
     .signature = kNumberToNumber,
     .tf = "Sign",
     .freedom = "the sign of NaN is NaN",
     .infer = infer_same_shape,
     .eval = eval_unary<Signum>},
    {.name = "Reciprocal",
     .summary = "1 / x",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Reciprocal",
     .infer = infer_same_shape,
     .eval = eval_float_unary<reciprocal>},
    {.name = "Ceil",
     .summary = "smallest integer not below x",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Ceil",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::ceil>},
    {.name = "Floor",
     .summary = "largest integer not above x",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Floor",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::floor>},
    {.name = "Round",
     .since = 11,
     .summary = "nearest integer, halves to even",
     .signature = kFloatToFloat,
     .tf = "Round",
     .infer = infer_same_shape,
     .eval = eval_float_unary<round_half_even>},
    {.name = "Sqrt",
     .summary = "square root, NaN below zero",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Sqrt",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::sqrt>},
    {.name = "Exp",
     .summary = "e to the power of x",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Exp",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::exp>},
    {.name = "Log",
     .summary = "natural logarithm",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Log",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::log>},
    {.name = "Erf",
     .since = 9,
     .summary = "error function",
     .signature = kNumberToNumber,
     .tf = "Erf",
     .infer = infer_same_shape,
     .eval = eval_unary<ErrorFunction>},
    {.name = "Sin",
     .since = 7,
     .summary = "sine",
     .signature = kFloatToFloat,
     .tf = "Sin",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::sin>},
    {.name = "Cos",
     .since = 7,
     .summary = "cosine",
     .signature = kFloatToFloat,
     .tf = "Cos",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::cos>},
    {.name = "Tan",
     .since = 7,
     .summary = "tangent",
     .signature = kFloatToFloat,
     .tf = "Tan",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::tan>},
    {.name = "Asin",
     .since = 7,
     .summary = "arcsine, NaN outside [-1, 1]",
     .signature = kFloatToFloat,
     .tf = "Asin",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::asin>},
    {.name = "Acos",
     .since = 7,
     .summary = "arccosine, NaN outside [-1, 1]",
     .signature = kFloatToFloat,
     .tf = "Acos",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::acos>},
    {.name = "Atan",
     .since = 7,
     .summary = "arctangent",
     .signature = kFloatToFloat,
     .tf = "Atan",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::atan>},
    {.name = "Sinh",
     .since = 9,
     .summary = "hyperbolic sine",
     .signature = kFloatToFloat,
     .tf = "Sinh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::sinh>},
    {.name = "Cosh",
     .since = 9,
     .summary = "hyperbolic cosine",
     .signature = kFloatToFloat,
     .tf = "Cosh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::cosh>},
    {.name = "Tanh",
     .summary = "hyperbolic tangent",
     .signature = kFloatToFloat,
     .attrs = kConsumed,
     .tf = "Tanh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::tanh>},
    {.name = "Asinh",
     .since = 9,
     .summary = "inverse hyperbolic sine",
     .signature = kFloatToFloat,
     .tf = "Asinh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::asinh>},
    {.name = "Acosh",
     .since = 9,
     .summary = "inverse hyperbolic cosine, NaN below 1",
     .signature = kFloatToFloat,
     .tf = "Acosh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::acosh>},
    {.name = "Atanh",
     .since = 9,
     .summary = "inverse hyperbolic tangent, NaN outside [-1, 1]",
     .signature = kFloatToFloat,
     .tf = "Atanh",
     .infer = infer_same_shape,
     .eval = eval_float_unary<std::atanh>},
    {.name = "IsNaN",
     .since = 9,
     .summary = "whether x is not a number",
     .signature = kFloatToBool,
     .tf = "IsNan",
     .infer = infer_same_shape,
     .eval = eval_predicate<IsNotANumber>},
    {.name = "IsInf",
     .since = 10,
     .summary = "whether x is infinite, of the signs asked for",
     .signature = kFloatToBool,
     .attrs = "detect_negative: int = 1; detect_positive: int = 1",
     .tf = "IsInf",
     .infer = infer_same_shape,
     .eval = eval_is_inf},
    {.name = "Not",
     .summary = "logical negation",
     .signature = "(X: bool) -> (Y: bool)",
     .tf = "LogicalNot",
     .infer = infer_same_shape,
     .eval = eval_predicate<LogicalNot>},
    {.name = "BitwiseNot",
     .since = 18,
     .summary = "every bit flipped",
     .signature = "(X: T) -> (Y: T) where T: int",
     .tf = "Invert",
     .infer = infer_same_shape,
     .eval = eval_unary<FlippedBits>},
};

}  // namespace

std::span<const OpDef> unary_ops() { return kOps; }

}  // namespace finity
