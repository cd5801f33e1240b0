// Losses over class labels, and steps of optimisers.
#include <string>

#include "base/error.h"
#include "torch/lowering.h"

namespace finity {

namespace {

// The mean, sum or list of -log_prob[label] * weight[label]; ignored labels count for nothing.
at::Tensor likelihood(const TorchCall& call, const at::Tensor& scores, std::optional<std::int64_t> ignored) {
  if (scores.dim() < 2) throw Error("scores have rank " + std::to_string(scores.dim()) + ", expected 2 or more");
  const at::Tensor labels = call.in(1).to(at::kLong);
  const at::Tensor skipped = ignored ? at::eq(labels, *ignored) : at::zeros_like(labels, at::kBool);
  const at::Tensor safe = at::where(skipped, at::zeros_like(labels), labels);
  if (at::any(at::logical_or(at::lt(safe, 0), at::ge(safe, scores.size(1)))).item<bool>())
    throw Error("a label is outside the " + std::to_string(scores.size(1)) + " classes");
  const at::Tensor zero = at::zeros({}, scores.options());
  at::Tensor weights = call.has(2) ? call.in(2).index_select(0, safe.reshape({-1})).reshape(safe.sizes())
                                   : at::ones_like(safe, scores.scalar_type());
  weights = at::where(skipped, zero, weights);
  const at::Tensor picked = at::gather(scores, 1, safe.unsqueeze(1)).squeeze(1);
  const at::Tensor losses = at::where(skipped, zero, at::mul(at::neg(picked), weights));
  const std::string reduction = call.text("reduction");
  if (reduction == "none") return losses;
  return reduction == "sum" ? at::sum(losses) : at::div(at::sum(losses), at::sum(weights));
}

std::optional<std::int64_t> ignored_label(const TorchCall& call) {
  if (call.has_attr("ignore_index")) return call.integer("ignore_index");
  return std::nullopt;
}

void lower_likelihood(TorchCall& call) { call.out(0, likelihood(call, call.in(0), ignored_label(call))); }

void lower_cross_entropy(TorchCall& call) {
  if (call.in(0).dim() < 2) throw Error("scores have rank " + std::to_string(call.in(0).dim()));
  // The logarithms are rounded to the operand's dtype before they are added.
  const at::Tensor logs =
      settled(at::log_softmax(call.in(0), 1), call.dtype(0)).to(call.in(0).scalar_type());
  std::optional<std::int64_t> ignored = ignored_label(call);
  if (call.node().domain == "com.microsoft" && call.has(3)) ignored = call.in(3).item<std::int64_t>();
  call.out(0, likelihood(call, logs, ignored));
  call.out(1, logs);
}

constexpr TorchLowering kEntries[] = {
    {"NegativeLogLikelihoodLoss", "", lower_likelihood},
    {"SoftmaxCrossEntropyLoss", "", lower_cross_entropy},
    {"SoftmaxCrossEntropyLossInternal", "com.microsoft", lower_cross_entropy},
};

}  // namespace

std::span<const TorchLowering> torch_losses() { return kEntries; }

}  // namespace finity
