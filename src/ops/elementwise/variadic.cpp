// Elementwise ops of any number of broadcast operands.
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/select_range.h"
#include "ops/shared/extremes.h"
#include "ops/shared/lengths.h"
#include "ops/shared/partial_ints.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

constexpr std::string_view kConsumed = "consumed_inputs: ints until 5";
constexpr std::string_view kAddsInFloat = "adds in input order, in float32 (float64: in float64), rounds once";

template <class F>
void eval_extreme(EvalCall& call) {
  Tensor result = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    result = map_binary(result, call.in(i), result.dtype(), F{});
  }
  call.out(0, std::move(result));
}

template <class C>
Tensor total(const EvalCall& call, bool divide) {
  const DType dtype = call.in(0).dtype();
  Dims dims;
  for (std::size_t i = 0; i < call.input_count(); ++i) dims = broadcast(dims, call.in(i).dims());
  std::vector<C> sum = elements<C>(broadcast_to(call.in(0), dims));
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    if (call.in(i).dtype() != dtype) throw Error("input " + std::to_string(i) + " differs in dtype from input 0");
    const std::vector<C> next = elements<C>(broadcast_to(call.in(i), dims));
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += next[k];
  }
  if (divide) {
    for (C& value : sum) value /= static_cast<C>(call.input_count());
  }
  return from_elements<C>(dtype, std::move(dims), sum);
}

template <bool Divide>
void eval_total(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  if (!is_float(dtype)) throw Error("expected float tensors, got " + std::string(name(dtype)));
  call.out(0, dtype == DType::float64 ? total<double>(call, Divide) : total<float>(call, Divide));
}

template <PartialInt (*Choose)(const PartialInt&, const PartialInt&)>
PartialInt partial_extreme(std::span<const PartialInt> x) {
  PartialInt best = x[0];
  for (const PartialInt& next : x.subspan(1)) best = Choose(best, next);
  return best;
}

template <PartialFunction F>
void infer_extreme(InferCall& call) {
  infer_broadcast(call);
  propagate_ints(call, F);
}

// It flows to the first operand that is the result.
void extreme_gradient(BuildCall& call) {
  const ValueId zero = call.scalar(0);
  ValueId flowing = call.grad(0);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const ValueId chosen = call.add("Equal", {call.in(i), call.out(0)});
    call.give(i, call.add("Where", {chosen, flowing, zero}));
    if (i + 1 < call.input_count()) flowing = call.add("Where", {chosen, zero, flowing});
  }
}

template <bool kMean>
void total_gradient(BuildCall& call) {
  const auto count = static_cast<double>(call.input_count());
  const ValueId share = kMean ? call.quotient(call.grad(0), call.scalar(count)) : call.grad(0);
  for (std::size_t i = 0; i < call.input_count(); ++i) call.give(i, share);
}

const OpDef kOps[] = {
    {.identity = {.name = "Max",
                  .summary = "largest of the operands, elementwise",
                  .signature = "(data...: T) -> (max: T) where T: number",
                  .attrs = kConsumed,
                  .tf = "Maximum"},
     .meaning = {.infer = infer_extreme<partial_extreme<larger>>,
                 .eval = eval_extreme<Larger>,
                 .freedom = "NaN in any operand gives NaN",
                 .not_finite = NotFinite::nan_open},
     .analysis =
         {.range = range_max, .length = length_extreme, .vjp = extreme_gradient, .grants = {.narrow_kernels = true}},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::joined, .order = OrderKind::largest},
     .drawing = {.often = 1}},
    {.identity = {.name = "Min",
                  .summary = "smallest of the operands, elementwise",
                  .signature = "(data...: T) -> (min: T) where T: number",
                  .attrs = kConsumed,
                  .tf = "Minimum"},
     .meaning = {.infer = infer_extreme<partial_extreme<smaller>>,
                 .eval = eval_extreme<Smaller>,
                 .freedom = "NaN in any operand gives NaN",
                 .not_finite = NotFinite::nan_open},
     .analysis =
         {.range = range_min, .length = length_extreme, .vjp = extreme_gradient, .grants = {.narrow_kernels = true}},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::joined, .order = OrderKind::smallest},
     .drawing = {.often = 1}},
    {.identity = {.name = "Sum",
                  .summary = "sum of the operands, elementwise",
                  .signature = "(data...: T) -> (sum: T) where T: float",
                  .attrs = kConsumed,
                  .tf = "AddN"},
     .meaning = {.infer = infer_broadcast, .eval = eval_total<false>, .freedom = kAddsInFloat},
     .analysis = {.range = range_sum, .length = length_sum, .vjp = total_gradient<false>, .overflow = "FN203"},
     .traits = {.elementwise = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Mean",
                  .summary = "mean of the operands, elementwise",
                  .signature = "(data...: T) -> (mean: T) where T: float",
                  .attrs = kConsumed},
     .meaning = {.infer = infer_broadcast, .eval = eval_total<true>, .freedom = kAddsInFloat},
     .analysis = {.range = range_mean, .length = length_mean, .vjp = total_gradient<true>, .overflow = "FN203"},
     .traits = {.elementwise = true}},
};

}  // namespace

std::span<const OpDef> variadic_ops() { return kOps; }

}  // namespace finity
