// Divisions as TensorFlow has them and ONNX has not, in finity's own domain: rounded down, the remainder that belongs
// to it, and a quotient that is 0 where the divisor is.
#include <algorithm>
#include <cmath>

#include "ops/elementwise/binary_range.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/function_range.h"
#include "ops/shared/partial_ints.h"
#include "ops/shared/range_rules.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";

// ---- values ----------------------------------------------------------------

std::int64_t floored(std::int64_t a, std::int64_t b) {
  require_divisor(b != 0);
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The quotient is rounded before it is rounded down.
void eval_floor_div(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  const auto divide = [dtype]<class C>(C a, C b) -> C {
    if constexpr (std::is_same_v<C, double>) return std::floor(round_to(dtype, a / b));
    else if constexpr (std::is_same_v<C, std::int64_t>) return floored(a, b);
    else {
      require_divisor(b != 0);
      return a / b;
    }
  };
  call.out(0, map_binary(call.in(0), call.in(1), dtype, divide));
}

double remainder_of(DType dtype, double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? round_to(dtype, rest + b) : rest;
}

void eval_floor_mod(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  call.out(0, map_binary(call.in(0), call.in(1), dtype, [dtype](auto a, auto b) {
             return remainder_of(dtype, static_cast<double>(a), static_cast<double>(b));
           }));
}

void eval_div_no_nan(EvalCall& call) {
  call.out(0, map_binary(call.in(0), call.in(1), call.in(0).dtype(), [](auto a, auto b) {
             return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
           }));
}

PartialInt partial_floor(std::span<const PartialInt> x) {
  if (x[1].is(0)) return {};  // eval reports it
  if (x[0].value && x[1].value) return PartialInt::of(floored(*x[0].value, *x[1].value));
  return x[0].non_negative() && x[1].non_negative() ? quotient(x[0], x[1]) : PartialInt{};
}

void infer_floor_div(InferCall& call) {
  infer_broadcast(call);
  propagate_ints(call, partial_floor);
}

// ---- ranges ----------------------------------------------------------------

Range above_zero(const Range& x, DType dtype) {
  const double least = is_float(dtype) ? min_subnormal(dtype) : 1;
  Range part = part_of(x, std::max(least, x.gap), kInf);
  part.pinf = x.pinf;
  return part;
}

Range below_zero(const Range& x, DType dtype) {
  const double least = is_float(dtype) ? min_subnormal(dtype) : 1;
  Range part = part_of(x, -kInf, -std::max(least, x.gap));
  part.ninf = x.ninf;
  return part;
}

// Of divisors of one sign the corners decide. Doubles of 64-bit integers are rounded: one step outwards.
Range floored_corners(DType dtype, const Range& a, const Range& b) {
  if (!a.has_finite() || !b.has_finite()) return {};
  const auto [lo, hi] = std::minmax({a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi});
  constexpr double kExact = 0x1p52;
  const auto outwards = [](double x, double towards) { return std::abs(x) < kExact ? x : std::nextafter(x, towards); };
  return from_bounds(dtype, std::floor(outwards(lo, -kInf)), std::floor(outwards(hi, kInf)));
}

Range floor_quotient(const Range& a, const Range& b, DType dtype) {
  if (is_float(dtype)) return floor_of(dtype, divide(dtype, a, b));
  Range result = join(floored_corners(dtype, a, above_zero(b, dtype)), floored_corners(dtype, a, below_zero(b, dtype)));
  result.integer = true;
  return result;
}

void range_floor_div(RangeCall& call) { range_binary(call, floor_quotient); }

Range floor_remainder(const Range& a, const Range& b, DType) {
  if (a.is_empty() || b.is_empty()) return {};
  Range result;
  if (a.has_finite() && (b.has_finite() || b.pinf || b.ninf)) {
    result.lo = std::min(b.ninf ? -kInf : b.lo, 0.0);
    result.hi = std::max(b.pinf ? kInf : b.hi, 0.0);
    if (a.lo >= 0 && b.lo > 0 && !b.ninf) result.hi = std::min(result.hi, a.hi);
    result.ninf = std::isinf(result.lo);
    result.pinf = std::isinf(result.hi);
    // The rest of an infinite divisor is the dividend, or that divisor.
    if (result.ninf) result.lo = std::min(b.has_finite() ? b.lo : 0, std::min(a.lo, 0.0));
    if (result.pinf) result.hi = std::max(b.has_finite() ? b.hi : 0, std::max(a.hi, 0.0));
  }
  result.nan = a.nan || b.nan || a.pinf || a.ninf || b.may_be_zero();
  return result;
}

void range_floor_mod(RangeCall& call) { range_binary(call, floor_remainder); }

void range_div_no_nan(RangeCall& call) {
  range_binary(call, [](const Range& a, const Range& b, DType dtype) {
    if (a.is_empty() || b.is_empty()) return Range{};
    Range divisors = above_zero(b, dtype);
    divisors.nan = b.nan;
    Range result = divisors.is_empty() ? Range{} : divide(dtype, a, divisors);
    if (const Range left = below_zero(b, dtype); !left.is_empty()) result = join(result, divide(dtype, a, left));
    return b.may_be_zero() ? join(result, point(0)) : result;
  });
}

const OpDef kOps[] = {
    {.identity = {.name = "FloorDiv",
                  .domain = kDomain,
                  .summary = "a / b rounded down",
                  .signature = "(A: T, B: T) -> (C: T) where T: number",
                  .tf = "FloorDiv"},
     .meaning = {.infer = infer_floor_div,
                 .eval = eval_floor_div,
                 .freedom = "the quotient of floats is rounded to the format first"},
     .analysis = {.range = range_floor_div, .vjp = flat, .hazards = division_hazards(), .overflow = "FN208"},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "FloorMod",
                  .domain = kDomain,
                  .summary = "a - floor(a / b) * b of floats, with the sign of b",
                  .signature = "(A: T, B: T) -> (C: T) where T: float",
                  .tf = "FloorMod"},
     .meaning = {.infer = infer_broadcast,
                 .eval = eval_floor_mod,
                 .freedom = "C's fmod, plus b where that has the other sign"},
     .analysis = {.range = range_floor_mod,
                  .vjp = gradients<"A: dC; B: Neg(Mul(dC, Floor(Div(A, B))))">,
                  .hazards = modulo_hazards()},
     .traits = {.elementwise = true}},
    {.identity = {.name = "DivNoNan",
                  .domain = kDomain,
                  .summary = "a / b, and 0 where b is 0",
                  .signature = "(A: T, B: T) -> (C: T) where T: float",
                  .tf = "DivNoNan"},
     .meaning = {.infer = infer_broadcast, .eval = eval_div_no_nan},
     .analysis = {.range = range_div_no_nan,
                  .vjp = gradients<"A: finity:DivNoNan(dC, B); B: Neg(Mul(dC, finity:DivNoNan(C, B)))">,
                  .overflow = "FN208"},
     .traits = {.exact = true, .elementwise = true}},
};

}  // namespace

std::span<const OpDef> division_ops() { return kOps; }

}  // namespace finity
