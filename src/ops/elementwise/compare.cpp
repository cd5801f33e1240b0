// Comparisons, logic, and choice between operands.
#include <limits>

#include "ops/elementwise/compare_range.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/select_range.h"
#include "ops/shared/extremes.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/lengths.h"
#include "ops/shared/partial_ints.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

constexpr std::string_view kOrdering = "(A: T, B: T) -> (C: bool) where T: number";
constexpr std::string_view kLogic = "(A: bool, B: bool) -> (C: bool)";

struct Same {
  template <class C>
  bool operator()(const C& a, const C& b) const {
    return a == b;
  }
};

struct Above {
  template <class C>
  bool operator()(C a, C b) const {
    return a > b;
  }
};

struct NotBelow {
  template <class C>
  bool operator()(C a, C b) const {
    return a >= b;
  }
};

struct Below {
  template <class C>
  bool operator()(C a, C b) const {
    return a < b;
  }
};

struct NotAbove {
  template <class C>
  bool operator()(C a, C b) const {
    return a <= b;
  }
};

struct Both {
  template <class C>
  bool operator()(C a, C b) const {
    return a != C{} && b != C{};
  }
};

struct Either {
  template <class C>
  bool operator()(C a, C b) const {
    return a != C{} || b != C{};
  }
};

struct ExactlyOne {
  template <class C>
  bool operator()(C a, C b) const {
    return (a != C{}) != (b != C{});
  }
};

template <class F>
void eval_comparison(EvalCall& call) {
  const Tensor& a = call.in(0);
  call.out(0, map_binary(a, aligned_right(call, a, call.in(1)), DType::boolean, F{}));
}

Tensor equal_strings(const Tensor& a, const Tensor& b) {
  const BroadcastPairs pairs = broadcast_pairs(a.dims(), b.dims());
  Tensor result(DType::boolean, pairs.dims);
  const std::span<std::uint8_t> to = result.mutable_data<std::uint8_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = a.strings()[static_cast<std::size_t>(pairs.a[i])] == b.strings()[static_cast<std::size_t>(pairs.b[i])];
  }
  return result;
}

void eval_equal(EvalCall& call) {
  const bool strings = call.in(0).dtype() == DType::string && call.in(1).dtype() == DType::string;
  if (strings) call.out(0, equal_strings(call.in(0), aligned_right(call, call.in(0), call.in(1))));
  else eval_comparison<Same>(call);
}

PartialInt partial_equal(std::span<const PartialInt> x) {
  if (surely_equal(x[0], x[1])) return PartialInt::of(1);
  return surely_different(x[0], x[1]) ? PartialInt::of(0) : PartialInt{};
}

void infer_equal(InferCall& call) {
  infer_binary(call);
  propagate_ints(call, partial_equal);
}

// ---- Where -----------------------------------------------------------------

void eval_where(EvalCall& call) {
  const Tensor& x = call.in(1);
  const Tensor& y = call.in(2);
  if (x.dtype() != y.dtype()) {
    throw Error("inputs X and Y are " + std::string(name(x.dtype())) + " and " + std::string(name(y.dtype())));
  }
  const Dims dims = broadcast(call.in(0).dims(), broadcast(x.dims(), y.dims()));
  const std::vector<std::int64_t> condition = elements<std::int64_t>(broadcast_to(call.in(0), dims));
  const Tensor otherwise = broadcast_to(y, dims);
  Tensor result = broadcast_to(x, dims);
  const auto choose = [&](auto from, auto to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (condition[i] == 0) to[i] = from[i];
    }
  };
  with_storage(x.dtype(), [&]<class S>() {
    if constexpr (std::is_same_v<S, std::string>) choose(otherwise.strings(), result.mutable_strings());
    else choose(otherwise.data<S>(), result.mutable_data<S>());
  });
  call.out(0, std::move(result));
}

PartialInt partial_choice(std::span<const PartialInt> x) {
  if (x[0].value) return *x[0].value != 0 ? x[1] : x[2];
  return either(x[1], x[2]);
}

void infer_where(InferCall& call) {
  infer_broadcast(call);
  propagate_ints(call, partial_choice);
}

// ---- Clip ------------------------------------------------------------------

template <class C>
Tensor clipped(const Tensor& x, std::optional<C> low, std::optional<C> high) {
  std::vector<C> values = elements<C>(x);
  for (C& value : values) {
    if (low) value = Larger{}(value, *low);
    if (high) value = Smaller{}(value, *high);
  }
  return from_elements<C>(x.dtype(), x.dims(), values);
}

// Up to opset 10: attributes, whose default is the largest float32, so that it also stops an infinity.
Tensor clipped_by_attributes(const EvalCall& call) {
  const Tensor& x = call.in(0);
  if (!is_float(x.dtype())) throw Error("expected a float tensor, got " + std::string(name(x.dtype())));
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  return clipped<double>(x, call.real("min", -kLargest), call.real("max", kLargest));
}

template <class C>
std::optional<C> bound_input(const EvalCall& call, std::size_t input, std::string_view name) {
  if (!call.datum(input).present()) return std::nullopt;
  const Tensor& bound = call.in(input);
  if (bound.dtype() != call.in(0).dtype()) throw Error("input " + std::string(name) + " differs in dtype from input");
  if (bound.size() != 1) {
    throw Error("input " + std::string(name) + " has shape " + to_string(bound.dims()) + ", expected a scalar");
  }
  return elements<C>(bound)[0];
}

// From opset 11 on: inputs, and one that is omitted does not bound.
Tensor clipped_by_inputs(const EvalCall& call) {
  const Tensor& x = call.in(0);
  return with_compute_type(x.dtype(), [&]<class C>() {
    return clipped<C>(x, bound_input<C>(call, 1, "min"), bound_input<C>(call, 2, "max"));
  });
}

void eval_clip(EvalCall& call) {
  call.out(0, call.version() < 11 ? clipped_by_attributes(call) : clipped_by_inputs(call));
}

// It flows to the operand between the limits, and to a limit where that is what comes out; max wins where they cross.
void clip_gradient(BuildCall& call) {
  const ValueId zero = call.scalar(0);
  const bool legacy = call.version() < 11;
  const auto limit = [&](std::size_t operand, std::string_view attr) {
    if (!legacy) return call.in(operand);
    return call.has_attr(attr) ? call.scalar(call.real(attr)) : ValueId{};
  };
  const ValueId least = limit(1, "min"), most = limit(2, "max");
  ValueId flowing = call.grad(0), raised = call.in(0);
  if (least.valid()) raised = call.add("Max", {raised, least});
  if (most.valid()) {
    const ValueId above = call.add("Greater", {raised, most});
    if (!legacy) call.give(2, call.add("Where", {above, flowing, zero}));
    flowing = call.add("Where", {above, zero, flowing});
  }
  if (least.valid()) {
    const ValueId below = call.add("Less", {call.in(0), least});
    if (!legacy) call.give(1, call.add("Where", {below, flowing, zero}));
    flowing = call.add("Where", {below, zero, flowing});
  }
  call.give(0, flowing);
}

// ---- drawing ---------------------------------------------------------------

// One bound or both, the upper not below the lower.
bool draw_clip(DrawCall& call) {
  if (call.opset() < 11) return false;
  const double low = static_cast<double>(call.between(-4, 4)) / 2;
  const bool has_low = call.chance(80);
  if (has_low) call.add_number(low);
  else call.leave_out();
  if (!has_low || call.chance(80)) call.add_number(low + static_cast<double>(call.between(0, 6)) / 2);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Equal",
                  .summary = "a == b",
                  .signature = "(A: T, B: T) -> (C: bool) where T: number | bool | string",
                  .attrs = kLegacyBroadcast,
                  .tf = "Equal"},
     .meaning = {.infer = infer_equal, .eval = eval_equal},
     .analysis = {.range = range_equal, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::equal},
     .drawing = {.often = 1}},
    {.identity =
         {.name = "Greater", .summary = "a > b", .signature = kOrdering, .attrs = kLegacyBroadcast, .tf = "Greater"},
     .meaning = {.infer = infer_binary, .eval = eval_comparison<Above>},
     .analysis = {.range = range_greater, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::greater}},
    {.identity =
         {.name = "GreaterOrEqual", .since = 12, .summary = "a >= b", .signature = kOrdering, .tf = "GreaterEqual"},
     .meaning = {.infer = infer_broadcast, .eval = eval_comparison<NotBelow>},
     .analysis = {.range = range_greater_or_equal, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::greater_equal}},
    {.identity = {.name = "Less", .summary = "a < b", .signature = kOrdering, .attrs = kLegacyBroadcast, .tf = "Less"},
     .meaning = {.infer = infer_binary, .eval = eval_comparison<Below>},
     .analysis = {.range = range_less, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::less}},
    {.identity = {.name = "LessOrEqual", .since = 12, .summary = "a <= b", .signature = kOrdering, .tf = "LessEqual"},
     .meaning = {.infer = infer_broadcast, .eval = eval_comparison<NotAbove>},
     .analysis = {.range = range_less_or_equal, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::less_equal}},
    {.identity =
         {.name = "And", .summary = "a and b", .signature = kLogic, .attrs = kLegacyBroadcast, .tf = "LogicalAnd"},
     .meaning = {.infer = infer_binary, .eval = eval_comparison<Both>},
     .analysis = {.range = range_and, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::logical_and}},
    {.identity = {.name = "Or", .summary = "a or b", .signature = kLogic, .attrs = kLegacyBroadcast, .tf = "LogicalOr"},
     .meaning = {.infer = infer_binary, .eval = eval_comparison<Either>},
     .analysis = {.range = range_or, .vjp = flat},
     .traits = {.exact = true, .elementwise = true, .comparison = Comparison::logical_or}},
    {.identity = {.name = "Xor", .summary = "exactly one of a and b", .signature = kLogic, .attrs = kLegacyBroadcast},
     .meaning = {.infer = infer_binary, .eval = eval_comparison<ExactlyOne>},
     .analysis = {.range = range_xor, .vjp = flat},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "Where",
                  .since = 9,
                  .summary = "x where the condition holds, y elsewhere",
                  .signature = "(condition: bool, X: T, Y: T) -> (output: T) where T: any",
                  .tf = "SelectV2"},
     .meaning = {.infer = infer_where, .eval = eval_where},
     .analysis = {.range = range_where,
                  .length = length_where,
                  .vjp = gradients<"X: Where(condition, doutput, 0); Y: Where(condition, 0, doutput)">},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::chosen},
     .drawing = {.often = 1}},
    {.identity = {.name = "Clip",
                  .summary = "x limited to [min, max]; max wins where min is larger",
                  .signature = "(input: T, min?: T since 11, max?: T since 11) -> (output: T) where T: number",
                  .attrs = "min: float until 10; max: float until 10; consumed_inputs: ints until 5",
                  .tf = "ClipByValue"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_clip,
                 .freedom = "a bound omitted in opset 11 or later lets infinities pass; NaN stays NaN",
                 .not_finite = NotFinite::open},
     .analysis = {.range = range_clip, .length = length_clip, .vjp = clip_gradient, .grants = {.narrow_kernels = true}},
     .traits = {.elementwise = true, .order = OrderKind::floored},
     .drawing = {.operands = draw_clip, .often = 1}},
};

}  // namespace

std::span<const OpDef> compare_ops() { return kOps; }

}  // namespace finity
