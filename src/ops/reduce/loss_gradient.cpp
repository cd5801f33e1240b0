#include "ops/reduce/loss_gradient.h"

#include "ops/reduce/loss_attrs.h"
#include "ops/reduce/reduce_gradient.h"

namespace finity {

namespace {

// Everything per label has the shape [N, 1, d1, ..., dk].
struct Labels {
  ValueId classes = {};  // 0 where the label is ignored
  ValueId ignored = {};  // invalid: none is
  ValueId weights = {};  // 0 where the label is ignored
};

ValueId where_counted(BuildCall& call, const Labels& labels, ValueId value) {
  if (!labels.ignored.valid()) return value;
  return call.add("Where", {labels.ignored, call.scalar(0, call.type(value).dtype), value});
}

Labels read_labels(BuildCall& call) {
  Labels labels;
  labels.classes = unsqueeze(call, call.cast(call.in(1), DType::int64), {1});
  if (const auto label = ignored_label(call)) {
    const ValueId ignored = call.scalar(static_cast<double>(*label), DType::int64);
    labels.ignored = call.add("Equal", {labels.classes, ignored});
    labels.classes = where_counted(call, labels, labels.classes);
  }
  const ValueId weights = call.has_input(2) ? call.add("Gather", {call.in(2), labels.classes})
                                            : call.cast(call.ones_like(labels.classes), call.dtype());
  labels.weights = where_counted(call, labels, weights);
  return labels;
}

// The gradient of each label's loss; a mean divides by the sum of the weights.
ValueId gradient_of_losses(BuildCall& call, const Labels& labels) {
  const LossReduction reduction = loss_reduction(call);
  if (reduction == LossReduction::none) return unsqueeze(call, call.grad(0), {1});
  if (reduction == LossReduction::sum) return call.grad(0);
  Attrs attrs;
  attrs.set("keepdims", std::int64_t{0});
  return call.quotient(call.grad(0), call.add("ReduceSum", {labels.weights}, std::move(attrs)));
}

// A label's loss is minus its weight times its log-probability; the mean loss is subtracted because the weight is part
// of what the sum is divided by.
void give_weights(BuildCall& call, const Labels& labels, ValueId log_probs, ValueId of_losses) {
  if (!call.wanted(2)) return;
  Attrs along;
  along.set("axis", std::int64_t{1});
  ValueId losses = call.add("Neg", {call.add("GatherElements", {log_probs, labels.classes}, std::move(along))});
  if (loss_reduction(call) == LossReduction::mean) losses = call.difference(losses, call.out(0));
  const ValueId parts = where_counted(call, labels, call.product(of_losses, losses));
  Attrs attrs;
  attrs.set("reduction", std::string("add"));
  call.give(
      2, call.add("ScatterElements",
                  {call.zeros_like(call.in(2)), reshape_to(call, labels.classes, {-1}), reshape_to(call, parts, {-1})},
                  std::move(attrs)));
}

// What flows to the log-probabilities: minus the weight at each label, 0 elsewhere.
ValueId through_likelihood(BuildCall& call, ValueId log_probs) {
  const Labels labels = read_labels(call);
  const ValueId of_losses = gradient_of_losses(call, labels);
  give_weights(call, labels, log_probs, of_losses);
  Attrs attrs;
  attrs.set("axis", std::int64_t{1});
  const ValueId parts = call.add("Neg", {call.product(of_losses, labels.weights)});
  return call.add("ScatterElements", {call.zeros_like(log_probs), labels.classes, parts}, std::move(attrs));
}

}  // namespace

void likelihood_loss_gradient(BuildCall& call) { call.give(0, through_likelihood(call, call.in(0))); }

void cross_entropy_loss_gradient(BuildCall& call) {
  Attrs attrs;
  attrs.set("axis", std::int64_t{1});
  const ValueId log_probs = call.has_output(1) ? call.out(1) : call.add("LogSoftmax", {call.in(0)}, std::move(attrs));
  ValueId arriving = call.has_grad(1) ? call.grad(1) : ValueId{};
  if (call.has_grad(0)) {
    const ValueId through_loss = through_likelihood(call, log_probs);
    arriving = arriving.valid() ? call.sum(arriving, through_loss) : through_loss;
  }
  call.give(0, log_softmax_slope(call, log_probs, arriving, {1}));
}

}  // namespace finity
