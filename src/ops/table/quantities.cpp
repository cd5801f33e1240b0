#include "ops/table/quantities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/elementwise/dropout_attrs.h"
#include "ops/reduce/softmax_attrs.h"
#include "ops/table/rule_patterns.h"
#include "tensor/convert.h"

namespace finity {

const Hazard* hazard_of(const OpDef& op, std::string_view told, int operand) {
  const std::string_view rule = raised_rule(told);
  const auto exact = std::ranges::find_if(op.analysis.hazards, [&](const Hazard& hazard) {
    return hazard.rule == rule && static_cast<int>(hazard.operand) == operand;
  });
  if (exact != op.analysis.hazards.end()) return &*exact;
  const auto derived = std::ranges::find_if(
      op.analysis.hazards, [&](const Hazard& hazard) { return hazard.rule == rule && hazard.quantity != nullptr; });
  return derived != op.analysis.hazards.end() ? &*derived : nullptr;
}

bool holds(const UnsafeSet& set, double x) {
  return std::ranges::any_of(set, [&](const Unsafe& part) { return part.lo <= x && x <= part.hi; });
}

// ---- unsafe values ---------------------------------------------------------------

UnsafeSet unsafe_zero(DType) { return {{0, 0}}; }
UnsafeSet unsafe_zero_of_floats(DType dtype) { return is_float(dtype) ? UnsafeSet{{0, 0}} : UnsafeSet{}; }
UnsafeSet unsafe_negative(DType) { return {{-kInf, -min_subnormal(DType::float64)}}; }
UnsafeSet unsafe_not_positive(DType) { return {{-kInf, 0}}; }
UnsafeSet unsafe_minus_infinity(DType) { return {{-kInf, -kInf}}; }
UnsafeSet unsafe_share(DType) { return {{-kInf, -1}, {1, kInf}}; }

UnsafeSet unsafe_beyond_largest(DType dtype) {
  if (!is_float(dtype)) return {};
  const double limit = dtype == DType::float64 ? kInf : overflow_limit(dtype);
  return {{-kInf, -limit}, {limit, kInf}};
}

// ---- parts of quantities ------------------------------------------------------------

ValueId harmless(BuildCall& call) { return call.scalar(0.5, DType::float64); }

ValueId in_float64(BuildCall& call, ValueId value) { return call.cast(value, DType::float64); }

double overflow_limit(DType dtype) {
  const double most = max_finite(dtype);
  return dtype == DType::float64 ? most : most + (most - next_down(dtype, most)) / 2;
}

ValueId divided(BuildCall& call, ValueId value, double limit) {
  return call.quotient(value, call.scalar(limit, call.type(value).dtype));
}

ValueId reduced(BuildCall& call, std::string_view op, ValueId value, std::vector<std::int64_t> axes) {
  const ValueId over = axes.empty() ? ValueId{} : call.ints(std::move(axes));
  return call.add(op, {value, over});
}

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::vector<std::int64_t> axes_from(std::size_t first, std::size_t rank) {
  std::vector<std::int64_t> axes(rank > first ? rank - first : 0);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(first));
  return axes;
}

ValueId reshaped(BuildCall& call, ValueId value, std::vector<std::int64_t> dims) {
  return call.add("Reshape", {value, call.ints(std::move(dims))});
}

ValueId transposed(BuildCall& call, ValueId value, std::vector<std::int64_t> order) {
  Attrs attrs;
  attrs.set("perm", std::move(order));
  return call.add("Transpose", {value}, std::move(attrs));
}

// ---- softmax: the largest score of a row ----------------------------------------------

namespace {

ValueId row_peak(BuildCall& call) {
  const SoftmaxAttrs attrs = read_softmax(call);
  if (!attrs.flat) return reduced(call, "ReduceMax", call.in(0), {attrs.axis});
  const std::size_t rank = call.rank(call.in(0));
  return reduced(call, "ReduceMax", call.in(0), axes_from(attrs.first(rank), rank));
}

ValueId biased_row_peak(BuildCall& call) {
  const DType wide = sum_format(call.dtype());
  const ValueId scores = call.sum(call.cast(call.in(0), wide), call.cast(call.in(1), wide));
  const std::size_t rank = call.rank(call.in(0));
  return reduced(call, "ReduceMax", scores, axes_from(axis_of(call.integer("axis"), rank), rank));
}

constexpr Hazard kSoftmax[] = {{.rule = "FN301", .operand = 0, .unsafe = unsafe_minus_infinity, .quantity = row_peak}};
constexpr Hazard kBiasSoftmax[] = {
    {.rule = "FN301", .operand = 0, .unsafe = unsafe_minus_infinity, .quantity = biased_row_peak}};

}  // namespace

Hazards softmax_hazards() { return kSoftmax; }
Hazards bias_softmax_hazards() { return kBiasSoftmax; }

// ---- reductions and windows: how many elements there are -----------------------------------

namespace {

// Elements of the operand; at least one where there is no result either.
ValueId elements_to_reduce(BuildCall& call) {
  const ValueId one = call.scalar(1, DType::int64);
  const ValueId none = call.difference(one, call.add("Size", {call.out(0)}));
  return call.add("Max", {call.add("Size", {call.in(0)}), none});
}

// The op's own axes, which are an attribute or an operand.
ValueId reduced_alike(BuildCall& call, ValueId value) {
  Attrs attrs;
  if (call.has_attr("noop_with_empty_axes")) attrs.set("noop_with_empty_axes", call.integer("noop_with_empty_axes"));
  ValueId axes = call.in(1);
  const std::vector<std::int64_t> listed = call.integers("axes");
  if (!axes.valid() && !listed.empty()) axes = call.ints(listed);
  return call.add("ReduceSum", {value, axes}, std::move(attrs));
}

ValueId sum_before_log(BuildCall& call) {
  const DType own = call.type(call.in(0)).dtype;
  return reduced_alike(call, call.cast(call.in(0), is_float(own) ? sum_format(own) : DType::float64));
}

// As a library computes it that does not subtract the largest element.
ValueId sum_of_exponentials(BuildCall& call) { return reduced_alike(call, call.add("Exp", {call.in(0)})); }

// The share of each window that is not padding.
ValueId window_share(BuildCall& call) {
  Attrs attrs;
  for (const char* name : {"kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode"}) {
    if (const Attr* own = call.attrs().find(name)) attrs.set(name, *own);
  }
  attrs.set("count_include_pad", std::int64_t{1});
  return call.add("AveragePool", {call.cast(call.ones_like(call.in(0)), DType::float32)}, std::move(attrs));
}

constexpr Hazard kReduction[] = {
    {.rule = "FN306", .operand = 0, .unsafe = unsafe_zero, .quantity = elements_to_reduce}};
constexpr Hazard kLogSum[] = {
    {.rule = "FN102", .operand = 0, .unsafe = unsafe_not_positive, .quantity = sum_before_log},
    {.rule = "FN306", .operand = 0, .unsafe = unsafe_zero, .quantity = elements_to_reduce}};
constexpr Hazard kLogSumExp[] = {
    {.rule = "FN102", .operand = 0, .unsafe = unsafe_not_positive, .quantity = sum_of_exponentials},
    {.rule = "FN306", .operand = 0, .unsafe = unsafe_zero, .quantity = elements_to_reduce}};
constexpr Hazard kWindow[] = {{.rule = "FN306", .operand = 0, .unsafe = unsafe_zero, .quantity = window_share}};

}  // namespace

Hazards reduction_hazards() { return kReduction; }
Hazards log_sum_hazards() { return kLogSum; }
Hazards log_sum_exp_hazards() { return kLogSumExp; }
Hazards window_hazards() { return kWindow; }

// ---- elementwise ops ---------------------------------------------------------------------

namespace {

// Before opset 7 an attribute could say at which axis of the base the exponents begin.
ValueId exponents(BuildCall& call) {
  if (call.version() >= 7 || !call.has_attr("axis")) return call.in(1);
  const std::size_t own = call.rank(call.in(1)), rank = call.rank(call.in(0));
  const std::size_t behind = rank - axis_of(call.integer("axis"), rank);
  return own < behind ? call.add("Unsqueeze", {call.in(1), call.ints(axes_from(own, behind))}) : call.in(1);
}

// Only a base whose exponent is no integer must not be negative.
ValueId base_of_fraction(BuildCall& call) {
  if (!is_float(call.in_type(0).dtype) || !is_float(call.in_type(1).dtype)) return harmless(call);
  const ValueId y = exponents(call);
  const ValueId whole = call.add("Equal", {y, call.add("Floor", {y})});
  return call.add("Where", {whole, call.scalar(1, call.in_type(0).dtype), call.in(0)});
}

// Only a base whose exponent is negative must not be zero.
ValueId base_of_inverse(BuildCall& call) {
  if (!is_float(call.in_type(0).dtype)) return harmless(call);
  const ValueId inverse = call.add("Less", {exponents(call), call.scalar(0, call.in_type(1).dtype)});
  return call.add("Where", {inverse, call.in(0), call.scalar(1, call.in_type(0).dtype)});
}

constexpr Hazard kPower[] = {{.rule = "FN106", .operand = 0, .unsafe = unsafe_negative, .quantity = base_of_fraction},
                             {.rule = "FN106", .operand = 0, .unsafe = unsafe_zero, .quantity = base_of_inverse}};

// The operand over the first number that is too large (too low) for the integer once its fraction is dropped.
ValueId share_of_integer(BuildCall& call) {
  const DType to = call.out_type(0).dtype;
  if (!is_float(call.in_type(0).dtype) || !is_int(to)) return harmless(call);
  double above = std::ldexp(1.0, info(to).bits - (is_signed_int(to) ? 1 : 0));
  double below = is_signed_int(to) ? -above - 1 : -1;
  if (is_signed_int(to) && below == -above) below = next_down(DType::float64, below);
  const ValueId x = in_float64(call, call.in(0));
  return call.add("Max", {divided(call, x, above), divided(call, x, below)});
}

constexpr Hazard kCast[] = {{.rule = "FN115", .operand = 0, .unsafe = unsafe_share, .quantity = share_of_integer}};

// What is kept in training is divided by 1 - ratio.
ValueId kept_share(BuildCall& call) {
  const std::optional<bool> stated = stated_training(call);
  if (stated == false) return harmless(call);
  const ValueId ratio =
      call.has_input(1) ? in_float64(call, call.in(1)) : call.scalar(call.real("ratio"), DType::float64);
  const ValueId kept = call.difference(call.scalar(1, DType::float64), ratio);
  return stated ? kept : call.add("Where", {call.in(2), kept, harmless(call)});
}

constexpr Hazard kDropout[] = {{.rule = "FN101", .operand = 1, .unsafe = unsafe_zero, .quantity = kept_share}};

// The poles of Lgamma and Digamma: 0, -1, -2, ... What is left is the distance to the next of them.
constexpr Hazard kPoles[] = {
    {.rule = "FN111", .operand = 0, .unsafe = unsafe_zero, .quantity = quantity<"Abs(Sub(X, Min(Round(X), 0)))">}};

// Of the usual formats only float16 has numbers so close to a pole that their tangent overflows.
UnsafeSet unsafe_half(DType dtype) { return dtype == DType::float16 ? unsafe_beyond_largest(dtype) : UnsafeSet{}; }

constexpr Hazard kTangent[] = {
    {.rule = "FN110", .operand = 0, .unsafe = unsafe_half, .quantity = quantity<"Tan(Cast(X, to=11))">}};

ValueId divisor_of_scale(BuildCall& call) { return call.integer("scale_down") != 0 ? call.in(1) : harmless(call); }

constexpr Hazard kScaleDown[] = {{.rule = "FN101", .operand = 1, .unsafe = unsafe_zero, .quantity = divisor_of_scale}};

}  // namespace

Hazards power_hazards() { return kPower; }
Hazards cast_hazards() { return kCast; }
Hazards dropout_hazards() { return kDropout; }
Hazards pole_hazards() { return kPoles; }
Hazards tangent_hazards() { return kTangent; }
Hazards scale_down_hazards() { return kScaleDown; }

// ---- optimisers: what steps are divided by ---------------------------------------------------

namespace {

// After R and T come the tensors, their gradients, and one or two groups of state; `f` of each tensor, in one vector.
template <class F>
ValueId of_all_tensors(BuildCall& call, std::size_t groups, F f) {
  const std::size_t count = (call.input_count() - 2) / groups;
  std::vector<ValueId> parts;
  for (std::size_t t = 0; t < count; ++t) {
    const auto operand = [&](std::size_t group) { return in_float64(call, call.in(2 + group * count + t)); };
    parts.push_back(reshaped(call, f(operand), {-1}));
  }
  Attrs attrs;
  attrs.set("axis", std::int64_t{0});
  return parts.empty() ? harmless(call) : call.add("Concat", std::move(parts), std::move(attrs));
}

// own * state + fresh * (gradient + norm_coefficient * x)^2
template <class F>
ValueId new_state(BuildCall& call, const F& operand, std::size_t group, double own, double fresh) {
  const auto scaled = [&](ValueId value, double by) { return call.product(value, call.scalar(by, DType::float64)); };
  const ValueId gradient = call.sum(operand(1), scaled(operand(0), call.real("norm_coefficient")));
  return call.sum(scaled(operand(group), own), scaled(call.product(gradient, gradient), fresh));
}

ValueId adagrad_state(BuildCall& call) {
  return of_all_tensors(call, 3, [&](const auto& operand) { return new_state(call, operand, 2, 1, 1); });
}
ValueId adam_state(BuildCall& call) {
  const double beta = call.real("beta");
  return of_all_tensors(call, 4, [&](const auto& operand) { return new_state(call, operand, 3, beta, 1 - beta); });
}

template <ValueId (*State)(BuildCall&)>
ValueId step_divisor(BuildCall& call) {
  return call.sum(call.add("Sqrt", {State(call)}), call.scalar(call.real("epsilon"), DType::float64));
}

ValueId decay_divisor(BuildCall& call) {
  const ValueId decayed =
      call.product(in_float64(call, call.in(1)), call.scalar(call.real("decay_factor"), DType::float64));
  return call.sum(call.scalar(1, DType::float64), decayed);
}

// The operand numbers are those of a single tensor; hazard_of finds the entry for more of them.
constexpr Hazard kAdagrad[] = {
    {.rule = "FN104", .operand = 4, .unsafe = unsafe_negative, .quantity = adagrad_state},
    {.rule = "FN101", .operand = 4, .unsafe = unsafe_zero, .quantity = step_divisor<adagrad_state>},
    {.rule = "FN101", .operand = 1, .unsafe = unsafe_zero, .quantity = decay_divisor}};
constexpr Hazard kAdam[] = {
    {.rule = "FN104", .operand = 5, .unsafe = unsafe_negative, .quantity = adam_state},
    {.rule = "FN101", .operand = 5, .unsafe = unsafe_zero, .quantity = step_divisor<adam_state>}};

ValueId accumulated(BuildCall& call) {
  const ValueId sum = call.sum(in_float64(call, call.in(0)), in_float64(call, call.in(1)));
  if (!call.has_input(2)) return sum;
  return call.add("Where", {call.in(2), harmless(call), sum});
}

constexpr Hazard kAccumulator[] = {
    {.rule = "FN203", .operand = 1, .unsafe = unsafe_beyond_largest, .quantity = accumulated}};

}  // namespace

Hazards adagrad_hazards() { return kAdagrad; }
Hazards adam_hazards() { return kAdam; }
Hazards accumulator_hazards() { return kAccumulator; }

}  // namespace finity
