// Losses over class labels, and steps of optimisers.
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/reduce/loss_attrs.h"
#include "torch/lowering.h"

namespace finity {

namespace {

// The mean, sum or list of -log_prob[label] * weight[label]; ignored labels count for nothing.
at::Tensor likelihood(const TorchCall& call, const at::Tensor& scores, std::optional<std::int64_t> ignored) {
  if (scores.dim() < 2) throw Error("scores have rank " + std::to_string(scores.dim()) + ", expected 2 or more");
  const at::Tensor labels = call.in(1).to(at::kLong);
  Dims wanted = scores.sizes().vec();
  wanted.erase(wanted.begin() + 1);
  if (labels.sizes() != at::IntArrayRef(wanted)) throw Error("labels do not fit the scores");
  if (call.has(2) && (call.in(2).dim() != 1 || call.in(2).size(0) != scores.size(1)))
    throw Error("weights has not one element per class");
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
  const LossReduction reduction = loss_reduction(call);
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::sum ? at::sum(losses) : at::div(at::sum(losses), at::sum(weights));
}

void lower_likelihood(TorchCall& call) { call.out(0, likelihood(call, call.in(0), ignored_label(call))); }

void lower_cross_entropy(TorchCall& call) {
  if (call.in(0).dim() < 2) throw Error("scores have rank " + std::to_string(call.in(0).dim()));
  // The logarithms are rounded to the operand's dtype before they are added.
  const at::Tensor logs = settled(at::log_softmax(call.in(0), 1), call.dtype(0)).to(call.in(0).scalar_type());
  std::optional<std::int64_t> ignored = ignored_label(call);
  if (call.op().identity.domain == "com.microsoft" && call.has(3)) ignored = call.in(3).item<std::int64_t>();
  call.out(0, likelihood(call, logs, ignored));
  call.out(1, logs);
}

// ---- optimisers ------------------------------------------------------------------

// One step for every tensor: operands are all tensors, all gradients, then all of each state. A rule changes the
// tensor and its states, which are computed in float64 as the reference does.
using Rule = std::function<void(at::Tensor& x, const at::Tensor& gradient, std::vector<at::Tensor>& states)>;

void lower_step(TorchCall& call, std::size_t states, const Rule& rule) {
  const std::size_t groups = 2 + states;
  const std::size_t count = (call.input_count() - 2) / groups;
  if (count == 0 || (call.input_count() - 2) % groups != 0) throw Error("the operands are not in groups");
  for (std::size_t t = 0; t < count; ++t) {
    const auto operand = [&](std::size_t group) { return call.in(2 + group * count + t).to(at::kDouble); };
    at::Tensor x = operand(0);
    for (std::size_t g = 1; g < groups; ++g) {
      if (operand(g).sizes() != x.sizes()) throw Error("a gradient or state differs in shape from its tensor");
    }
    std::vector<at::Tensor> state;
    for (std::size_t g = 0; g < states; ++g) state.push_back(operand(2 + g));
    const at::Tensor gradient = at::add(at::mul(x, call.real("norm_coefficient")), operand(1));
    rule(x, gradient, state);
    const auto put = [&](std::size_t out, std::size_t group, const at::Tensor& value) {
      const DType dtype = call.dtype(2 + group * count + t);
      call.put(out * count + t, {.dtype = dtype, .tensor = settled(value, dtype)});
    };
    put(0, 0, x);
    for (std::size_t g = 0; g < states; ++g) put(1 + g, 2 + g, state[g]);
  }
}

void lower_adagrad(TorchCall& call) {
  const double rate = call.number(0) / (1.0 + call.number(1) * call.real("decay_factor"));
  lower_step(call, 1, [&](at::Tensor& x, const at::Tensor& gradient, std::vector<at::Tensor>& states) {
    states[0] = at::add(states[0], at::mul(gradient, gradient));
    const at::Tensor root = at::add(at::sqrt(states[0]), call.real("epsilon"));
    x = at::sub(x, at::div(at::mul(gradient, rate), root));
  });
}

void lower_adam(TorchCall& call) {
  const double alpha = call.real("alpha"), beta = call.real("beta"), updates = call.number(1);
  double rate = call.number(0);
  if (updates > 0) rate *= std::sqrt(1.0 - std::pow(beta, updates)) / (1.0 - std::pow(alpha, updates));
  lower_step(call, 2, [&](at::Tensor& x, const at::Tensor& gradient, std::vector<at::Tensor>& states) {
    states[0] = at::add(at::mul(states[0], alpha), at::mul(gradient, 1.0 - alpha));
    states[1] = at::add(at::mul(states[1], beta), at::mul(at::mul(gradient, gradient), 1.0 - beta));
    const at::Tensor root = at::add(at::sqrt(states[1]), call.real("epsilon"));
    x = at::mul(at::sub(x, at::div(at::mul(states[0], rate), root)), 1.0 - call.real("norm_coefficient_post"));
  });
}

void lower_momentum(TorchCall& call) {
  const double alpha = call.real("alpha"), rate = call.number(0);
  const double beta = call.number(1) > 0 ? call.real("beta") : 1.0;
  const bool nesterov = call.text("mode") == "nesterov";
  lower_step(call, 1, [&](at::Tensor& x, const at::Tensor& gradient, std::vector<at::Tensor>& states) {
    states[0] = at::add(at::mul(states[0], alpha), at::mul(gradient, beta));
    const at::Tensor step = nesterov ? at::add(gradient, at::mul(states[0], alpha)) : states[0];
    x = at::sub(x, at::mul(step, rate));
  });
}

constexpr std::string_view kTraining = "ai.onnx.preview.training";

constexpr TorchLowering kEntries[] = {
    {"Adagrad", kTraining, lower_adagrad},
    {"Adam", kTraining, lower_adam},
    {"Momentum", kTraining, lower_momentum},
    {"NegativeLogLikelihoodLoss", "", lower_likelihood},
    {"SoftmaxCrossEntropyLoss", "", lower_cross_entropy},
    {"SoftmaxCrossEntropyLossInternal", "com.microsoft", lower_cross_entropy},
};

}  // namespace

std::span<const TorchLowering> torch_losses() { return kEntries; }

}  // namespace finity
