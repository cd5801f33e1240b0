// Arithmetic, functions, comparisons and casts, element by element.
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/shared/legacy_broadcast.h"
#include "torch/lowering.h"

namespace finity {

namespace {

using Unary = at::Tensor (*)(const at::Tensor&);
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

template <Unary F>
void unary(TorchCall& call) {
  call.out(0, F(call.in(0)));
}

template <Unary F>
void float_unary(TorchCall& call) {
  call.out(0, F(as_float(call.in(0))));
}

template <Binary F>
void binary(TorchCall& call) {
  call.out(0, F(call.in(0), aligned_right(call)));
}

// Rounding is the identity on integers, which LibTorch refuses.
template <Unary F>
at::Tensor to_integer(const at::Tensor& x) {
  return is_integral(x) ? x : F(x);
}

// LibTorch's float32 kernels lose digits where the function is near zero.
template <Unary F>
at::Tensor in_double(const at::Tensor& x) {
  return F(x.to(at::kDouble));
}

// LibTorch gives 0 for NaN.
at::Tensor signum(const at::Tensor& x) {
  const at::Tensor result = at::sign(x);
  return is_integral(x) ? result : at::where(at::isnan(x), x, result);
}

at::Tensor plus(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor minus(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }

// Where an integer is -1; an unsigned one never is, though LibTorch would take 255 for it.
at::Tensor is_minus_one(const at::Tensor& x) {
  return x.scalar_type() == at::kByte ? at::zeros_like(x, at::kBool) : at::eq(x, -1);
}

at::Tensor quotient(const at::Tensor& a, const at::Tensor& b) {
  if (!is_integral(a)) return at::div(a, b);
  if (at::any(at::eq(b, 0)).item<bool>()) throw Error("integer division by zero in input B");
  // The one quotient that does not fit wraps; the processor would stop.
  const at::Tensor minus_one = is_minus_one(b);
  if (!at::any(minus_one).item<bool>()) return at::div(a, b, "trunc");
  return at::where(minus_one, at::neg(a), at::div(a, at::where(minus_one, at::ones_like(b), b), "trunc"));
}

void lower_mod(TorchCall& call) {
  const at::Tensor& a = call.in(0);
  const at::Tensor& b = call.in(1);
  const bool truncated = call.integer("fmod") != 0;
  if (!truncated && !is_integral(a)) throw Error("attribute 'fmod' must be 1 for a float tensor");
  if (is_integral(a) && at::any(at::eq(b, 0)).item<bool>()) throw Error("integer division by zero in input B");
  // By -1 nothing is left, and the processor would stop for the most negative number.
  const at::Tensor divisor = is_integral(b) ? at::where(is_minus_one(b), at::ones_like(b), b) : b;
  call.out(0, truncated ? at::fmod(a, divisor) : at::remainder(a, divisor));
}

// A negative exponent leaves something only of 1 and -1.
at::Tensor integer_power(const at::Tensor& base, const at::Tensor& exponent) {
  const at::Tensor x = base.to(at::kLong);
  const at::Tensor n = exponent.to(at::kLong);
  const at::Tensor negative = at::lt(n, 0);
  if (at::any(at::logical_and(negative, at::eq(x, 0))).item<bool>()) throw Error("integer 0 to a negative power");
  const at::Tensor power = at::pow(x, at::clamp_min(n, 0));
  const at::Tensor odd = at::eq(at::bitwise_and(n, 1), 1);
  const at::Tensor of_minus_one = at::where(odd, at::neg(at::ones_like(n)), at::ones_like(n));
  const at::Tensor one = at::eq(x, 1).to(at::kLong);
  return at::where(negative, at::where(at::eq(x, -1), of_minus_one, one), power);
}

void lower_pow(TorchCall& call) {
  const at::Tensor& base = call.in(0);
  const at::Tensor exponent = aligned_right(call);
  if (is_integral(base) && is_integral(exponent)) return call.out(0, integer_power(base, exponent));
  if (is_integral(base)) return call.out(0, at::pow(base.to(at::kDouble), exponent.to(at::kDouble)));
  // A single exponent that is not derived: LibTorch then has exact squares and derivatives without logarithms.
  if (exponent.numel() == 1 && exponent.dim() <= base.dim() && !exponent.requires_grad())
    return call.out(0, at::pow(base, exponent.item()));
  call.out(0, at::pow(base, exponent.to(base.scalar_type())));
}

void lower_bit_shift(TorchCall& call) {
  const at::Tensor x = call.in(0).to(at::kLong);
  const at::Tensor by = call.in(1).to(at::kLong);
  const at::Tensor beyond = at::ge(by, info(call.dtype(0)).bits);
  const at::Tensor count = at::where(beyond, at::zeros_like(by), by);
  const at::Tensor shifted =
      call.text("direction") == "LEFT" ? at::bitwise_left_shift(x, count) : at::bitwise_right_shift(x, count);
  call.out(0, at::where(beyond, at::zeros_like(shifted), shifted));
}

void lower_is_inf(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const at::Tensor none = at::zeros_like(x, at::kBool);
  const at::Tensor negative = call.integer("detect_negative") != 0 ? at::isneginf(x) : none;
  const at::Tensor positive = call.integer("detect_positive") != 0 ? at::isposinf(x) : none;
  call.out(0, at::logical_or(negative, positive));
}

// ---- choice -----------------------------------------------------------------

void lower_where(TorchCall& call) { call.out(0, at::where(call.in(0), call.in(1), call.in(2))); }

// With plain numbers LibTorch's clamp has the derivative 1 at the bounds themselves.
// A bound as a number; nothing when there is none. `plain` becomes false when it cannot be one: NaN, or derived by.
c10::optional<at::Scalar> bound_of(const TorchCall& call, std::size_t i, bool& plain) {
  if (!call.has(i)) return c10::nullopt;
  const at::Tensor& bound = call.in(i);
  if (bound.numel() != 1) throw Error(i == 1 ? "input min is not a scalar" : "input max is not a scalar");
  if (bound.requires_grad() || at::isnan(bound).any().item<bool>()) plain = false;
  return bound.item();
}

void lower_clip(TorchCall& call) {
  at::Tensor x = call.in(0);
  if (call.version() < 11) {
    if (is_integral(x)) throw Error("expected a float tensor");
    constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
    return call.out(0, at::clamp_max(at::clamp_min(x, call.real("min", -kLargest)), call.real("max", kLargest)));
  }
  bool plain = true;
  const c10::optional<at::Scalar> low = bound_of(call, 1, plain), high = bound_of(call, 2, plain);
  if (plain) return call.out(0, low || high ? at::clamp(x, low, high) : x);
  if (low) x = at::maximum(x, call.in(1).reshape({}));
  if (high) x = at::minimum(x, call.in(2).reshape({}));
  call.out(0, x);
}

template <Binary F>
void folded(TorchCall& call) {
  at::Tensor result = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) result = F(result, call.in(i));
  call.out(0, result);
}

void lower_mean(TorchCall& call) {
  at::Tensor sum = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) sum = at::add(sum, call.in(i));
  call.out(0, at::div(sum, static_cast<double>(call.input_count())));
}

// ---- casts ------------------------------------------------------------------

bool needs_reference(DType dtype) { return dtype == DType::string || dtype == DType::uint64 || info(dtype).bits < 8; }

void lower_cast(TorchCall& call) {
  const DType to = call.out_dtype(0);
  const DType from = call.dtype(0);
  const bool tiny = is_float(to) && info(to).bits < 16;
  if (needs_reference(to) || needs_reference(from) || tiny || to == DType::undefined) {
    if (call.value(0).tensor.defined() && call.in(0).requires_grad() && is_float(to))
      throw Unsupported("rounding to " + std::string(name(to)) + " has no derivative here");
    return call.put(0, to_value(call.reference().front()));
  }
  call.out(0, call.in(0));
}

constexpr TorchLowering kEntries[] = {
    {"Abs", "", unary<at::abs>},
    {"Neg", "", unary<at::neg>},
    {"Sign", "", unary<signum>},
    {"Reciprocal", "", unary<at::reciprocal>},
    {"Ceil", "", unary<to_integer<at::ceil>>},
    {"Floor", "", unary<to_integer<at::floor>>},
    {"Round", "", unary<to_integer<at::round>>},
    {"Sqrt", "", unary<at::sqrt>},
    {"Exp", "", unary<at::exp>},
    {"Log", "", unary<at::log>},
    {"Erf", "", float_unary<at::erf>},
    {"Sin", "", unary<at::sin>},
    {"Cos", "", unary<at::cos>},
    {"Tan", "", unary<at::tan>},
    {"Asin", "", unary<at::asin>},
    {"Acos", "", unary<at::acos>},
    {"Atan", "", unary<at::atan>},
    {"Sinh", "", unary<at::sinh>},
    {"Cosh", "", unary<at::cosh>},
    {"Tanh", "", unary<at::tanh>},
    {"Asinh", "", unary<at::asinh>},
    {"Acosh", "", unary<at::acosh>},
    {"Atanh", "", unary<at::atanh>},
    {"IsNaN", "", unary<at::isnan>},
    {"IsInf", "", lower_is_inf},
    {"Not", "", unary<at::logical_not>},
    {"BitwiseNot", "", unary<at::bitwise_not>},
    {"Log1p", "finity", unary<at::log1p>},
    {"Expm1", "finity", unary<at::expm1>},
    {"Rsqrt", "finity", unary<at::rsqrt>},
    {"Lgamma", "finity", unary<in_double<at::lgamma>>},
    {"Digamma", "finity", unary<in_double<at::digamma>>},
    {"Add", "", binary<plus>},
    {"Sub", "", binary<minus>},
    {"Mul", "", binary<at::mul>},
    {"Div", "", binary<quotient>},
    {"Mod", "", lower_mod},
    {"Pow", "", lower_pow},
    {"BitShift", "", lower_bit_shift},
    {"BitwiseAnd", "", binary<at::bitwise_and>},
    {"BitwiseOr", "", binary<at::bitwise_or>},
    {"BitwiseXor", "", binary<at::bitwise_xor>},
    {"Equal", "", binary<at::eq>},
    {"Greater", "", binary<at::gt>},
    {"GreaterOrEqual", "", binary<at::ge>},
    {"Less", "", binary<at::lt>},
    {"LessOrEqual", "", binary<at::le>},
    {"And", "", binary<at::logical_and>},
    {"Or", "", binary<at::logical_or>},
    {"Xor", "", binary<at::logical_xor>},
    {"Where", "", lower_where, true},
    {"Clip", "", lower_clip},
    {"Max", "", folded<at::maximum>},
    {"Min", "", folded<at::minimum>},
    {"Sum", "", folded<plus>},
    {"Mean", "", lower_mean},
    {"Cast", "", lower_cast, true},
    {"CastLike", "", lower_cast, true},
    {"Identity", "", [](TorchCall& call) { call.put(0, call.value(0)); }, true},
};

}  // namespace

std::span<const TorchLowering> torch_elementwise() { return kEntries; }

// ---- shared -----------------------------------------------------------------

std::int64_t axis_of(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank)
    throw Error("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

bool is_integral(const at::Tensor& x) { return at::isIntegralType(x.scalar_type(), /*includeBool=*/true); }

at::Tensor as_float(const at::Tensor& x) { return is_integral(x) ? x.to(at::kDouble) : x; }

at::Tensor aligned_right(const TorchCall& call) {
  const at::Tensor& a = call.in(0);
  const at::Tensor& b = call.in(1);
  if (!broadcasts_legacy(call)) return b;
  if (b.numel() == 1) return b.reshape({});
  const std::int64_t axis = call.integer("axis", -1);
  if (axis == -1) return b;  // lined up at the end
  const std::int64_t behind = a.dim() - b.dim() - axis_of(axis, a.dim());
  if (behind < 0) throw Error("attribute 'axis' is " + std::to_string(axis));
  Dims dims = b.sizes().vec();
  dims.resize(dims.size() + static_cast<std::size_t>(behind), 1);
  return b.reshape(dims);
}

}  // namespace finity
