// Elementwise ops of one operand: functions of double for floats, exact for integers.
#include <algorithm>
#include <cmath>

#include "ops/elementwise/compare_range.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/unary_functions.h"
#include "ops/shared/function_range.h"
#include "ops/shared/lengths.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "ops/shared/relations.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";
constexpr std::string_view kNumberToNumber = "(X: T) -> (Y: T) where T: number";
constexpr std::string_view kFloatToBool = "(X: T) -> (Y: bool) where T: float | float8";
// Opsets before 6 carry it; it says nothing about the result.
constexpr std::string_view kConsumed = "consumed_inputs: ints until 5";

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

// ---- ranges ----------------------------------------------------------------

bool all_cells(const AbsTensor& x, bool (*holds)(const Range&)) { return std::ranges::all_of(x.cells, holds); }

void range_abs(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (all_cells(x, [](const Range& r) { return !r.may_be_negative(); })) return call.same(0, 0);
  const DType dtype = x.dtype;
  AbsTensor result = map_cells(x, dtype, [&](const Range& r) { return absolute(dtype, r); });
  // The most negative integer is not below zero in absolute value only.
  if (is_float(dtype)) {
    result.relations = relations_not_below(x);
    if (x.identity.valid()) result.relations.push_back(AggregateBound{.source = {x.identity}, .of = Of::magnitude});
  }
  call.out(0, std::move(result));
}

void range_neg(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType dtype = x.dtype;
  AbsTensor result = map_cells(x, dtype, [&](const Range& r) { return negate(dtype, r); });
  if (is_float(dtype) && call.settings().affine) {
    result.forms = mapped_forms(x, [](const Form& form, std::size_t) { return scale(form, -1); });
  }
  if (is_float(dtype)) add_negated_maximum(x, result);
  call.out(0, std::move(result));
}

Relations unordered(const AbsTensor&) { return {}; }

// Floor, Ceil, Round: nothing happens to integers.
template <Range (*F)(DType, const Range&, int), Relations (*Ordered)(const AbsTensor&)>
void range_to_integers(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (all_cells(x, [](const Range& r) { return r.integer || !r.has_finite(); })) return call.same(0, 0);
  const auto of_range = [&](const Range& r) { return F(x.dtype, r, 0); };
  AbsTensor result = map_cells(x, x.dtype, of_range);
  result.relations = mapped(x.relations, Monotone::increasing, of_range);
  std::ranges::copy(Ordered(x), std::back_inserter(result.relations));
  call.out(0, std::move(result));
}

// In float16 the steps between numbers are wide enough to land next to a pole: the tangent of one of them is 66347.
void range_tan(RangeCall& call) {
  const bool narrow = call.in_dtype(0) == DType::float16;
  bool possible = false;
  range_mapped(call, Monotone::no, [&](const Range& r, DType dtype) {
    Range y = tan_of(dtype, r, call.ulps());
    possible |= may_cross_tan_pole(r) || y.pinf || y.ninf;
    if (narrow) y.pinf = y.ninf = false;
    return y;
  });
  if (narrow) call.site("FN110", 0, call.hull(0), possible);
}

void range_is_nan(RangeCall& call) {
  range_unary(call, [](const Range& x, DType) { return truth(x.nan, x.has_finite() || x.pinf || x.ninf); });
}

void range_is_inf(RangeCall& call) {
  const bool negative = call.integer("detect_negative") != 0;
  const bool positive = call.integer("detect_positive") != 0;
  range_unary(call, [&](const Range& x, DType) {
    const bool wanted = (negative && x.ninf) || (positive && x.pinf);
    const bool other = x.has_finite() || x.nan || (!negative && x.ninf) || (!positive && x.pinf);
    return truth(wanted, other);
  });
}

Range negation(const Range& x) { return truth(x.may_be_zero(), x.may_be_positive()); }

void range_not(RangeCall& call) {
  range_unary(call, [](const Range& x, DType) { return negation(x); });
  if (call.has_output(0)) call.outs()[0].relations = mapped(call.in(0).relations, Monotone::decreasing, negation);
}

// ~x is -x - 1, and for unsigned numbers the distance from the largest.
void range_bitwise_not(RangeCall& call) {
  range_unary(call, [](const Range& x, DType dtype) {
    const double top_value = is_signed_int(dtype) ? -1 : max_finite(dtype);
    return x.has_finite() ? from_bounds(dtype, top_value - x.hi, top_value - x.lo) : Range{};
  });
}

// ---- hazards ---------------------------------------------------------------

UnsafeSet when_float(DType dtype, UnsafeSet set) { return is_float(dtype) ? std::move(set) : UnsafeSet{}; }

UnsafeSet not_positive(DType dtype) { return when_float(dtype, {{-kInf, 0}}); }
UnsafeSet negative(DType dtype) { return when_float(dtype, {{-kInf, -min_subnormal(dtype)}}); }
UnsafeSet below_one(DType dtype) { return when_float(dtype, {{-kInf, next_down(dtype, 1)}}); }
UnsafeSet beyond_one(DType dtype) {
  return when_float(dtype, {{-kInf, next_down(dtype, -1)}, {next_up(dtype, 1), kInf}});
}
UnsafeSet one_and_beyond(DType dtype) { return when_float(dtype, {{-kInf, -1}, {1, kInf}}); }

constexpr Hazard kReciprocal[] = {{.rule = "FN114", .operand = 0, .unsafe = unsafe_zero_of_floats}};
constexpr Hazard kSqrt[] = {{.rule = "FN104", .operand = 0, .unsafe = negative}};
constexpr Hazard kLog[] = {{.rule = "FN102", .operand = 0, .unsafe = not_positive}};
constexpr Hazard kArc[] = {{.rule = "FN107", .operand = 0, .unsafe = beyond_one}};
constexpr Hazard kAcosh[] = {{.rule = "FN108", .operand = 0, .unsafe = below_one}};
constexpr Hazard kAtanh[] = {{.rule = "FN109", .operand = 0, .unsafe = one_and_beyond}};

// The root of a sum of squares is at least each element, once something was added for squares that vanish.
void range_sqrt(RangeCall& call) {
  range_rising<sqrt_of>(call);
  if (call.has_output(0)) add_roots(call.in(0), call.outs()[0]);
}

void range_reciprocal(RangeCall& call) {
  range_elementwise<reciprocal_of>(call);
  if (call.has_output(0)) add_inverses(call.in(0), 1, true, call.outs()[0]);
}

const OpDef kOps[] = {
    {.identity = {.name = "Abs",
                  .summary = "absolute value; the most negative integer stays itself",
                  .signature = kNumberToNumber,
                  .attrs = kConsumed,
                  .tf = "Abs"},
     .meaning = {.infer = infer_same_shape, .eval = eval_unary<Absolute>},
     .analysis = {.range = range_abs, .length = length_not_larger, .vjp = gradients<"X: Mul(dY, Sign(X))">},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::bounded},
     .drawing = {.often = 1}},
    {.identity = {.name = "Neg", .summary = "-x", .signature = kNumberToNumber, .attrs = kConsumed, .tf = "Neg"},
     .meaning = {.infer = infer_same_shape, .eval = eval_unary<Negated>},
     .analysis = {.range = range_neg, .length = length_not_larger, .vjp = gradients<"X: Neg(dY)">},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::bounded},
     .drawing = {.often = 1}},
    {.identity = {.name = "Sign",
                  .since = 9,
                  .summary = "-1, 0 or 1 by the sign of x",
                  .signature = kNumberToNumber,
                  .tf = "Sign"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_unary<Signum>,
                 .freedom = "the sign of NaN is NaN",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_rising<sign_of>, .vjp = zero_slope},
     .traits = {.exact = true, .elementwise = true}},
    {.identity =
         {.name = "Reciprocal", .summary = "1 / x", .signature = kFloatToFloat, .attrs = kConsumed, .tf = "Reciprocal"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<reciprocal>},
     .analysis = {.range = range_reciprocal,
                  .vjp = gradients<"X: Neg(Mul(dY, Mul(Y, Y)))">,
                  .hazards = kReciprocal,
                  .overflow = "FN208"},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Ceil",
                  .summary = "smallest integer not below x",
                  .signature = kFloatToFloat,
                  .attrs = kConsumed,
                  .tf = "Ceil"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::ceil>},
     .analysis = {.range = range_to_integers<ceil_of, relations_not_below>, .vjp = zero_slope},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "Floor",
                  .summary = "largest integer not above x",
                  .signature = kFloatToFloat,
                  .attrs = kConsumed,
                  .tf = "Floor"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::floor>},
     .analysis = {.range = range_to_integers<floor_of, relations_not_above>, .vjp = zero_slope},
     .traits = {.exact = true, .elementwise = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Round",
                  .since = 11,
                  .summary = "nearest integer, halves to even",
                  .signature = kFloatToFloat,
                  .tf = "Round"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<round_half_even>},
     .analysis = {.range = range_to_integers<round_of, unordered>, .vjp = zero_slope},
     .traits = {.exact = true, .elementwise = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Sqrt",
                  .summary = "square root, NaN below zero",
                  .signature = kFloatToFloat,
                  .attrs = kConsumed,
                  .tf = "Sqrt"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::sqrt>},
     .analysis = {.range = range_sqrt, .vjp = gradients<"X: Div(dY, Mul(2, Y))">, .hazards = kSqrt},
     .traits = {.exact = true, .elementwise = true},
     .drawing = {.often = 1}},
    {.identity =
         {.name = "Exp", .summary = "e to the power of x", .signature = kFloatToFloat, .attrs = kConsumed, .tf = "Exp"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::exp>},
     .analysis = {.range = range_rising<exp_of>, .vjp = gradients<"X: Mul(dY, Y)">, .overflow = "FN201"},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.often = 1}},
    {.identity =
         {.name = "Log", .summary = "natural logarithm", .signature = kFloatToFloat, .attrs = kConsumed, .tf = "Log"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::log>},
     .analysis = {.range = range_rising<log_of>, .vjp = gradients<"X: Div(dY, X)">, .hazards = kLog},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Erf", .since = 9, .summary = "error function", .signature = kNumberToNumber, .tf = "Erf"},
     .meaning = {.infer = infer_same_shape, .eval = eval_unary<ErrorFunction>},
     .analysis = {.range = range_rising<erf_of>,
                  .vjp = gradients<"X: Mul(dY, Mul(1.1283791670955126, Exp(Neg(Mul(X, X)))))">},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Sin", .since = 7, .summary = "sine", .signature = kFloatToFloat, .tf = "Sin"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::sin>},
     .analysis = {.range = range_elementwise<sin_of>,
                  .length = length_not_larger,
                  .vjp = gradients<"X: Mul(dY, Cos(X))">},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Cos", .since = 7, .summary = "cosine", .signature = kFloatToFloat, .tf = "Cos"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::cos>},
     .analysis = {.range = range_elementwise<cos_of>, .vjp = gradients<"X: Neg(Mul(dY, Sin(X)))">},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Tan", .since = 7, .summary = "tangent", .signature = kFloatToFloat, .tf = "Tan"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::tan>},
     .analysis = {.range = range_tan,
                  .vjp = gradients<"X: Mul(dY, Add(1, Mul(Y, Y)))">,
                  .hazards = tangent_hazards(),
                  .grants = kCoarse},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Asin",
                  .since = 7,
                  .summary = "arcsine, NaN outside [-1, 1]",
                  .signature = kFloatToFloat,
                  .tf = "Asin"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::asin>},
     .analysis = {.range = range_rising<asin_of>,
                  .vjp = gradients<"X: Div(dY, Sqrt(Sub(1, Mul(X, X))))">,
                  .hazards = kArc,
                  .grants = kCoarse},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Acos",
                  .since = 7,
                  .summary = "arccosine, NaN outside [-1, 1]",
                  .signature = kFloatToFloat,
                  .tf = "Acos"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::acos>},
     .analysis = {.range = range_elementwise<acos_of>,
                  .vjp = gradients<"X: Neg(Div(dY, Sqrt(Sub(1, Mul(X, X)))))">,
                  .hazards = kArc,
                  .grants = kArcCosine},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Atan", .since = 7, .summary = "arctangent", .signature = kFloatToFloat, .tf = "Atan"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::atan>},
     .analysis = {.range = range_rising<atan_of>,
                  .length = length_not_larger,
                  .vjp = gradients<"X: Div(dY, Add(1, Mul(X, X)))">,
                  .grants = kCoarse},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Sinh", .since = 9, .summary = "hyperbolic sine", .signature = kFloatToFloat, .tf = "Sinh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::sinh>},
     .analysis = {.range = range_rising<sinh_of>, .vjp = gradients<"X: Mul(dY, Cosh(X))">, .overflow = "FN202"},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Cosh", .since = 9, .summary = "hyperbolic cosine", .signature = kFloatToFloat, .tf = "Cosh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::cosh>},
     .analysis = {.range = range_elementwise<cosh_of>, .vjp = gradients<"X: Mul(dY, Sinh(X))">, .overflow = "FN202"},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Tanh",
                  .summary = "hyperbolic tangent",
                  .signature = kFloatToFloat,
                  .attrs = kConsumed,
                  .tf = "Tanh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::tanh>},
     .analysis = {.range = range_rising<tanh_of>,
                  .length = length_not_larger,
                  .vjp = gradients<"X: Mul(dY, Sub(1, Mul(Y, Y)))">,
                  .grants = kTanh},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.often = 1}},
    {.identity =
         {.name = "Asinh", .since = 9, .summary = "inverse hyperbolic sine", .signature = kFloatToFloat, .tf = "Asinh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::asinh>},
     .analysis = {.range = range_rising<asinh_of>, .vjp = gradients<"X: Div(dY, Sqrt(Add(1, Mul(X, X))))">},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Acosh",
                  .since = 9,
                  .summary = "inverse hyperbolic cosine, NaN below 1",
                  .signature = kFloatToFloat,
                  .tf = "Acosh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::acosh>},
     .analysis = {.range = range_rising<acosh_of>,
                  .vjp = gradients<"X: Div(dY, Sqrt(Sub(Mul(X, X), 1)))">,
                  .hazards = kAcosh},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Atanh",
                  .since = 9,
                  .summary = "inverse hyperbolic tangent, NaN outside [-1, 1]",
                  .signature = kFloatToFloat,
                  .tf = "Atanh"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<std::atanh>},
     .analysis = {.range = range_rising<atanh_of>,
                  .vjp = gradients<"X: Div(dY, Sub(1, Mul(X, X)))">,
                  .hazards = kAtanh},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "IsNaN",
                  .since = 9,
                  .summary = "whether x is not a number",
                  .signature = kFloatToBool,
                  .tf = "IsNan"},
     .meaning = {.infer = infer_same_shape, .eval = eval_predicate<IsNotANumber>},
     .analysis = {.range = range_is_nan, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::is_nan}},
    {.identity = {.name = "IsInf",
                  .since = 10,
                  .summary = "whether x is infinite, of the signs asked for",
                  .signature = kFloatToBool,
                  .attrs = "detect_negative: int = 1; detect_positive: int = 1",
                  .tf = "IsInf"},
     .meaning = {.infer = infer_same_shape, .eval = eval_is_inf},
     .analysis = {.range = range_is_inf, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::is_inf}},
    {.identity =
         {.name = "Not", .summary = "logical negation", .signature = "(X: bool) -> (Y: bool)", .tf = "LogicalNot"},
     .meaning = {.infer = infer_same_shape, .eval = eval_predicate<LogicalNot>},
     .analysis = {.range = range_not, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::logical_not},
     .drawing = {.often = 1}},
    {.identity = {.name = "BitwiseNot",
                  .since = 18,
                  .summary = "every bit flipped",
                  .signature = "(X: T) -> (Y: T) where T: int",
                  .tf = "Invert"},
     .meaning = {.infer = infer_same_shape, .eval = eval_unary<FlippedBits>},
     .analysis = {.range = range_bitwise_not},
     .traits = {.exact = true, .elementwise = true}},
};

}  // namespace

std::span<const OpDef> unary_ops() { return kOps; }

}  // namespace finity
