// Quantities of losses over class labels (quantities.h): the weights that the mean is divided by, and the largest
// score.
#include "ops/reduce/loss_attrs.h"
#include "ops/shared/accumulate.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

// The label that counts for nothing, an operand of ONNX Runtime's loss; invalid when there is none.
ValueId ignored_value(BuildCall& call) {
  if (call.has_input(3)) return call.in(3);
  const auto label = ignored_label(call);
  return label ? call.scalar(static_cast<double>(*label), DType::int64) : ValueId{};
}

ValueId weight_sum(BuildCall& call) {
  if (loss_reduction(call) != LossReduction::mean) return harmless(call);
  const DType wide = sum_format(call.dtype());
  const ValueId labels = call.cast(call.in(1), DType::int64);
  const ValueId ignored = ignored_value(call);
  const ValueId no_label = call.scalar(0, DType::int64);
  const ValueId skipped = ignored.valid() ? call.add("Equal", {labels, ignored}) : ValueId{};
  ValueId weights = call.cast(call.ones_like(labels), wide);
  if (call.has_input(2)) {
    const ValueId index = ignored.valid() ? call.add("Where", {skipped, no_label, labels}) : labels;
    weights = call.add("Gather", {call.cast(call.in(2), wide), index});
  }
  if (ignored.valid()) weights = call.add("Where", {skipped, call.scalar(0, wide), weights});
  return reduced(call, "ReduceSum", weights, {});
}

// The largest score of each label; one that counts for nothing may be anything unless its probabilities are asked for.
ValueId class_peak(BuildCall& call) {
  const ValueId peak = reduced(call, "ReduceMax", call.in(0), {1});
  const ValueId ignored = ignored_value(call);
  if (!ignored.valid() || call.has_output(1)) return peak;
  const ValueId labels = call.add("Unsqueeze", {call.cast(call.in(1), DType::int64), call.ints({1})});
  return call.add("Where", {call.add("Equal", {labels, ignored}), call.scalar(1, call.in_type(0).dtype), peak});
}

constexpr Hazard kCrossEntropy[] = {
    {.rule = "FN306", .operand = 1, .unsafe = unsafe_zero, .quantity = weight_sum},
    {.rule = "FN301", .operand = 0, .unsafe = unsafe_minus_infinity, .quantity = class_peak}};

}  // namespace

Hazards likelihood_loss_hazards() { return Hazards(kCrossEntropy).first(1); }
Hazards cross_entropy_loss_hazards() { return kCrossEntropy; }

}  // namespace finity
