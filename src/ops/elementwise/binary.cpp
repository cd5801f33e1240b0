// Arithmetic of two broadcast operands.
#include <cmath>
#include <limits>

#include "ops/elementwise/binary_range.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/lengths.h"
#include "ops/shared/partial_ints.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

constexpr std::string_view kArithmetic = "(A: T, B: T) -> (C: T) where T: number";
constexpr std::string_view kBits = "(A: T, B: T) -> (C: T) where T: int";

// Integer arithmetic wraps: computed unsigned, where overflow is defined.
std::int64_t wrapped(std::uint64_t x) { return static_cast<std::int64_t>(x); }
std::uint64_t bits(std::int64_t x) { return static_cast<std::uint64_t>(x); }

struct Plus {
  double operator()(double a, double b) const { return a + b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return wrapped(bits(a) + bits(b)); }
};

struct Minus {
  double operator()(double a, double b) const { return a - b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a - b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return wrapped(bits(a) - bits(b)); }
};

struct Times {
  double operator()(double a, double b) const { return a * b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a * b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return wrapped(bits(a) * bits(b)); }
};

// Integers truncate towards zero; the one quotient that does not fit wraps.
struct Quotient {
  double operator()(double a, double b) const { return a / b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    require_divisor(b != 0);
    return a / b;
  }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    require_divisor(b != 0);
    return b == -1 ? wrapped(0 - bits(a)) : a / b;
  }
};

// fmod=1: the sign of the dividend, as C's fmod and %.
struct TruncatedModulus {
  double operator()(double a, double b) const { return std::fmod(a, b); }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    require_divisor(b != 0);
    return a % b;
  }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    require_divisor(b != 0);
    return b == -1 ? 0 : a % b;
  }
};

// fmod=0: integers only, the sign of the divisor, as Python's %.
struct FlooredModulus {
  double operator()(double, double) const { throw Error("attribute 'fmod' must be 1 for a float tensor"); }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return TruncatedModulus{}(a, b); }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    const std::int64_t rest = TruncatedModulus{}(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};

struct BitAnd {
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) return a & b;
    else throw Error("expected integer tensors");
  }
};

struct BitOr {
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) return a | b;
    else throw Error("expected integer tensors");
  }
};

struct BitXor {
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) return a ^ b;
    else throw Error("expected integer tensors");
  }
};

template <class F>
void eval_arithmetic(EvalCall& call) {
  const Tensor& a = call.in(0);
  call.out(0, map_binary(a, aligned_right(call, a, call.in(1)), a.dtype(), F{}));
}

void eval_mod(EvalCall& call) {
  if (call.integer("fmod") != 0) eval_arithmetic<TruncatedModulus>(call);
  else eval_arithmetic<FlooredModulus>(call);
}

// Both as 64-bit unsigned numbers, so that a shift by the width or more gives 0 instead of being undefined.
void eval_bit_shift(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  if (!is_unsigned_int(dtype)) throw Error("expected unsigned tensors, got " + std::string(name(dtype)));
  const bool left = call.text("direction") == "LEFT";
  const auto width = static_cast<std::uint64_t>(info(dtype).bits);
  const auto shift = [&](auto x, auto count) -> std::uint64_t {
    const auto value = static_cast<std::uint64_t>(x);
    const auto by = static_cast<std::uint64_t>(count);
    if (by >= width) return 0;
    return left ? value << by : value >> by;
  };
  call.out(0, map_binary(call.in(0), call.in(1), dtype, shift));
}

// ---- Pow -------------------------------------------------------------------

struct Power {
  double operator()(double base, double exponent) const { return std::pow(base, exponent); }
  std::uint64_t operator()(std::uint64_t base, std::uint64_t exponent) const {
    std::uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1) {
      if ((exponent & 1) != 0) result *= base;
      base *= base;
    }
    return result;
  }
  // A negative exponent gives 1 / base^n truncated: only 1 and -1 leave anything.
  std::int64_t operator()(std::int64_t base, std::int64_t exponent) const {
    if (exponent >= 0) return wrapped((*this)(bits(base), bits(exponent)));
    if (base == 0) throw Error("integer 0 to a negative power");
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
};

template <class C>
Tensor as_type(DType dtype, const Tensor& tensor) {
  return from_elements<C>(dtype, tensor.dims(), elements<C>(tensor));
}

// Base and exponent may differ in dtype; the result has the base's. Two integers are computed exactly, anything else
// in double.
void eval_pow(EvalCall& call) {
  const Tensor& base = call.in(0);
  const Tensor exponent = aligned_right(call, base, call.in(1));
  const DType dtype = base.dtype();
  if (!is_int(dtype) || !is_int(exponent.dtype())) {
    call.out(0, map_binary(as_type<double>(DType::float64, base), as_type<double>(DType::float64, exponent), dtype,
                           Power{}));
  } else if (exponent.dtype() == DType::uint64) {
    call.out(0, map_binary(as_type<std::uint64_t>(DType::uint64, base), exponent, dtype, Power{}));
  } else {
    call.out(0, map_binary(as_type<std::int64_t>(DType::int64, base), as_type<std::int64_t>(DType::int64, exponent),
                           dtype, Power{}));
  }
}

// ---- shapes as values ------------------------------------------------------

using Pair = std::span<const PartialInt>;

// Of known numbers as eval computes it, which may wrap.
template <class F, PartialInt (*Bounds)(const PartialInt&, const PartialInt&)>
PartialInt partial(Pair x) {
  return x[0].value && x[1].value ? PartialInt::of(F{}(*x[0].value, *x[1].value)) : Bounds(x[0], x[1]);
}

PartialInt partial_quotient(Pair x) {
  if (x[1].is(0)) return {};  // eval reports it
  return partial<Quotient, quotient>(x);
}

template <PartialFunction F>
void infer_arithmetic(InferCall& call) {
  infer_binary(call);
  propagate_ints(call, F);
}

// ---- gradients -------------------------------------------------------------

// Sums over repeated axes follow numpy's rule, which the broadcasting of old operator sets does not.
void refuse_legacy_axis(const BuildCall& call) {
  if (call.has_attr("axis")) throw Unsupported("its derivative is not known with the attribute 'axis'");
}

template <Text Formula>
void broadcast_gradients(BuildCall& call) {
  refuse_legacy_axis(call);
  give_gradients(call, Formula.view());
}

// a - n b, where n is the quotient rounded as the op does.
void modulo_gradient(BuildCall& call) {
  call.give(0, call.grad(0));
  if (!call.wanted(1)) return;
  const ValueId rest = call.difference(call.in(0), call.out(0));
  call.give(1, call.add("Neg", {call.product(call.grad(0), call.add("Round", {call.quotient(rest, call.in(1))}))}));
}

// y x^(y-1) and z log(x), 0 where the other factor makes them 0 whatever is undefined.
void power_gradient(BuildCall& call) {
  refuse_legacy_axis(call);
  const DType dtype = call.dtype();
  const ValueId x = call.in(0), z = call.out(0), gradient = call.grad(0);
  const Tensor* known = call.known(call.in(1));
  if (known != nullptr && known->size() == 1 && call.wanted(0) && !call.wanted(1)) {
    const double exponent = element_as_double(*known, 0);
    if (exponent == 0) return;
    if (exponent == 1) return call.give(0, gradient);
    const ValueId rest = exponent == 2 ? x : call.add("Pow", {x, call.scalar(exponent - 1)});
    return call.give(0, call.product(gradient, call.product(call.scalar(exponent), rest)));
  }
  const ValueId y = call.cast(call.in(1), dtype), zero = call.scalar(0);
  if (call.wanted(0)) {
    const ValueId slope = call.product(y, call.add("Pow", {x, call.difference(y, call.scalar(1))}));
    call.give(0, call.add("Where", {call.add("Equal", {y, zero}), zero, call.product(gradient, slope)}));
  }
  if (call.wanted(1)) {
    const ValueId vanishes = call.add("And", {call.add("Equal", {x, zero}), call.add("GreaterOrEqual", {y, zero})});
    const ValueId slope = call.product(gradient, call.product(z, call.add("Log", {x})));
    call.give(1, call.cast(call.add("Where", {vanishes, zero, slope}), call.in_type(1).dtype));
  }
}

// ---- drawing ---------------------------------------------------------------

// What integers give that overflow or have negative exponents is not said.
bool draw_power(DrawCall& call) {
  if (is_float(call.dtype())) return false;
  call.add_number(static_cast<double>(call.between(0, 3)), 60);
  return true;
}

const OpDef kOps[] = {
    {.identity =
         {.name = "Add", .summary = "a + b", .signature = kArithmetic, .attrs = kLegacyBroadcast, .tf = "AddV2"},
     .meaning = {.infer = infer_arithmetic<partial<Plus, sum>>, .eval = eval_arithmetic<Plus>},
     .analysis =
         {.range = range_add, .length = length_sum, .vjp = broadcast_gradients<"A: dC; B: dC">, .overflow = "FN203"},
     .traits = {.exact = true, .elementwise = true, .order = OrderKind::sum},
     .drawing = {.often = 2}},
    {.identity = {.name = "Sub", .summary = "a - b", .signature = kArithmetic, .attrs = kLegacyBroadcast, .tf = "Sub"},
     .meaning = {.infer = infer_arithmetic<partial<Minus, difference>>, .eval = eval_arithmetic<Minus>},
     .analysis = {.range = range_subtract,
                  .length = length_sum,
                  .vjp = broadcast_gradients<"A: dC; B: Neg(dC)">,
                  .overflow = "FN203"},
     .traits = {.exact = true, .elementwise = true, .order = OrderKind::difference},
     .drawing = {.often = 1}},
    {.identity = {.name = "Mul", .summary = "a * b", .signature = kArithmetic, .attrs = kLegacyBroadcast, .tf = "Mul"},
     .meaning = {.infer = infer_arithmetic<partial<Times, product>>, .eval = eval_arithmetic<Times>},
     .analysis = {.range = range_multiply,
                  .length = length_product,
                  .vjp = broadcast_gradients<"A: Mul(dC, B); B: Mul(dC, A)">,
                  .overflow = "FN203",
                  .invalid = "FN303"},
     .traits = {.exact = true, .elementwise = true, .order = OrderKind::product, .merge = Merge::factor},
     .drawing = {.often = 2}},
    {.identity = {.name = "Div",
                  .summary = "a / b; integers truncate towards zero",
                  .signature = kArithmetic,
                  .attrs = kLegacyBroadcast,
                  .tf = "RealDiv"},
     .meaning = {.infer = infer_arithmetic<partial_quotient>, .eval = eval_arithmetic<Quotient>},
     .analysis = {.range = range_divide,
                  .length = length_quotient,
                  .vjp = broadcast_gradients<"A: Div(dC, B); B: Neg(Mul(dC, Div(C, B)))">,
                  .hazards = division_hazards(),
                  .overflow = "FN208"},
     .traits = {.exact = true, .elementwise = true, .merge = Merge::divisor},
     .drawing = {.often = 2}},
    {.identity = {.name = "Mod",
                  .since = 10,
                  .summary = "remainder with the sign of the divisor, or of the dividend with fmod=1",
                  .signature = kArithmetic,
                  .attrs = "fmod: int = 0",
                  .tf = "FloorMod"},
     .meaning = {.infer = infer_broadcast, .eval = eval_mod},
     .analysis = {.range = range_modulo, .vjp = modulo_gradient, .hazards = modulo_hazards()},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "Pow",
                  .summary = "x to the power of y, in the dtype of x",
                  .signature = "(X: T, Y: T1) -> (Z: T) where T: number, T1: number",
                  .attrs = kLegacyBroadcast,
                  .tf = "Pow"},
     .meaning = {.infer = infer_binary,
                 .eval = eval_pow,
                 .freedom = "an integer to a negative integer power is the truncated quotient; 0 to one is an error",
                 .not_finite = NotFinite::open},
     .analysis = {.range = range_power, .vjp = power_gradient, .hazards = power_hazards(), .overflow = "FN207"},
     .traits = {.elementwise = true},
     .drawing = {.operands = draw_power, .ends = Ends::never, .often = 1}},
    {.identity = {.name = "BitShift",
                  .since = 11,
                  .summary = "bits of x moved left or right by y",
                  .signature = "(X: T, Y: T) -> (Z: T) where T: uint8 | uint16 | uint32 | uint64",
                  .attrs = "direction: string {LEFT, RIGHT}",
                  .tf = "LeftShift"},
     .meaning = {.infer = infer_broadcast,
                 .eval = eval_bit_shift,
                 .freedom = "a shift by the width of the dtype or more gives 0"},
     .analysis = {.range = range_shift},
     .traits = {.exact = true, .elementwise = true}},
    {.identity =
         {.name = "BitwiseAnd", .since = 18, .summary = "bits set in both", .signature = kBits, .tf = "BitwiseAnd"},
     .meaning = {.infer = infer_broadcast, .eval = eval_arithmetic<BitAnd>},
     .analysis = {.range = range_bits},
     .traits = {.exact = true, .elementwise = true}},
    {.identity =
         {.name = "BitwiseOr", .since = 18, .summary = "bits set in either", .signature = kBits, .tf = "BitwiseOr"},
     .meaning = {.infer = infer_broadcast, .eval = eval_arithmetic<BitOr>},
     .analysis = {.range = range_bits},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "BitwiseXor",
                  .since = 18,
                  .summary = "bits set in exactly one",
                  .signature = kBits,
                  .tf = "BitwiseXor"},
     .meaning = {.infer = infer_broadcast, .eval = eval_arithmetic<BitXor>},
     .analysis = {.range = range_bits},
     .traits = {.exact = true, .elementwise = true}},
};

}  // namespace

std::span<const OpDef> binary_ops() { return kOps; }

}  // namespace finity
