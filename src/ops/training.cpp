// Optimisers of ONNX's training preview: one step of gradient descent on any number of tensors.
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/families.h"
#include "ops/training_range.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";
constexpr std::string_view kSignature = "(R: float32|float64, T: int64, inputs...: value) -> (outputs...: value)";
constexpr std::string_view kStepFreedom = "computed in double, rounded once per output";

// After R and T come the inputs in groups of equal size: all tensors, all gradients, then
// what the optimiser accumulates. The outputs are the groups without the gradients.
std::size_t tensor_count(const Call& call, std::size_t groups) {
  const std::size_t inputs = call.input_count() - 2;
  const std::size_t count = inputs / groups;
  if (count * groups != inputs || call.output_count() > count * (groups - 1)) {
    throw Error(std::to_string(inputs) + " tensors and " + std::to_string(call.output_count()) +
                " outputs do not fit groups of tensor, gradient and state");
  }
  return count;
}

template <std::size_t Groups>
void infer_step(InferCall& call) {
  const std::size_t count = tensor_count(call, Groups);
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    const std::size_t group = i / count;
    call.set_type(i, call.in(2 + (group == 0 ? 0 : group + 1) * count + i % count));
  }
}

// One element: its value, gradient and accumulated state, which the rule updates.
struct Element {
  double x = 0;
  double gradient = 0;
  double state[2] = {0, 0};
};

std::vector<double> group_elements(const EvalCall& call, std::size_t input, const Tensor& like) {
  const Tensor& tensor = call.in(input);
  if (!is_float(tensor.dtype())) throw Error("input " + std::to_string(input) + " is not a float tensor");
  if (tensor.dims() != like.dims()) {
    throw Error("input " + std::to_string(input) + " has shape " + to_string(tensor.dims()) + ", its tensor has " +
                to_string(like.dims()));
  }
  return elements<double>(tensor);
}

template <std::size_t Groups, class Rule>
void eval_step(EvalCall& call, Rule rule) {
  const std::size_t count = tensor_count(call, Groups);
  for (std::size_t t = 0; t < count; ++t) {
    const Tensor& tensor = call.in(2 + t);
    std::vector<std::vector<double>> groups;
    for (std::size_t g = 0; g < Groups; ++g) groups.push_back(group_elements(call, 2 + g * count + t, tensor));
    for (std::size_t i = 0; i < groups[0].size(); ++i) {
      Element element{groups[0][i], groups[1][i], {groups[2][i], groups[Groups - 1][i]}};
      rule(element);
      groups[0][i] = element.x;
      for (std::size_t g = 2; g < Groups; ++g) groups[g][i] = element.state[g - 2];
    }
    for (std::size_t g = 0; g < Groups; ++g) {
      if (g == 1) continue;
      const Tensor& like = call.in(2 + g * count + t);
      call.out((g == 0 ? 0 : g - 1) * count + t, from_elements<double>(like.dtype(), like.dims(), groups[g]));
    }
  }
}

double learning_rate(const EvalCall& call) { return element_as_double(call.in(0), 0); }
std::int64_t update_count(const EvalCall& call) { return element_as_int(call.in(1), 0); }

void eval_adagrad(EvalCall& call) {
  const double rate = learning_rate(call) / (1.0 + static_cast<double>(update_count(call)) * call.real("decay_factor"));
  const double norm = call.real("norm_coefficient");
  const double epsilon = call.real("epsilon");
  eval_step<3>(call, [&](Element& e) {
    const double gradient = norm * e.x + e.gradient;
    e.state[0] += gradient * gradient;
    e.x -= rate * gradient / (std::sqrt(e.state[0]) + epsilon);
  });
}

void eval_adam(EvalCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  const auto updates = static_cast<double>(update_count(call));
  double rate = learning_rate(call);
  if (updates > 0) rate *= std::sqrt(1.0 - std::pow(beta, updates)) / (1.0 - std::pow(alpha, updates));
  const double norm = call.real("norm_coefficient");
  const double norm_post = call.real("norm_coefficient_post");
  const double epsilon = call.real("epsilon");
  eval_step<4>(call, [&](Element& e) {
    const double gradient = norm * e.x + e.gradient;
    e.state[0] = alpha * e.state[0] + (1.0 - alpha) * gradient;
    e.state[1] = beta * e.state[1] + (1.0 - beta) * gradient * gradient;
    e.x = (1.0 - norm_post) * (e.x - rate * e.state[0] / (std::sqrt(e.state[1]) + epsilon));
  });
}

void eval_momentum(EvalCall& call) {
  const double alpha = call.real("alpha");
  const double beta = update_count(call) > 0 ? call.real("beta") : 1.0;
  const double norm = call.real("norm_coefficient");
  const double rate = learning_rate(call);
  const bool nesterov = call.text("mode") == "nesterov";
  eval_step<3>(call, [&](Element& e) {
    const double gradient = norm * e.x + e.gradient;
    e.state[0] = alpha * e.state[0] + beta * gradient;
    e.x -= rate * (nesterov ? gradient + alpha * e.state[0] : e.state[0]);
  });
}

const OpDef kOps[] = {
    {.name = "Adagrad",
     .domain = kDomain,
     .summary = "a step of the Adagrad optimiser",
     .signature = kSignature,
     .attrs = "decay_factor: float = 0; epsilon: float = 0; norm_coefficient: float = 0",
     .tf = "ResourceApplyAdagradV2",
     .freedom = kStepFreedom,
     .infer = infer_step<3>,
     .eval = eval_adagrad,
     .range = range_adagrad},
    {.name = "Adam",
     .domain = kDomain,
     .summary = "a step of the Adam optimiser",
     .signature = kSignature,
     .attrs = "alpha: float = 0.9; beta: float = 0.999; epsilon: float = 0; norm_coefficient: float = 0; "
              "norm_coefficient_post: float = 0",
     .tf = "ResourceApplyAdam",
     .freedom = kStepFreedom,
     .infer = infer_step<4>,
     .eval = eval_adam,
     .range = range_adam},
    {.name = "Momentum",
     .domain = kDomain,
     .summary = "a step of gradient descent with standard or Nesterov momentum",
     .signature = kSignature,
     .attrs = "alpha: float; beta: float; mode: string {standard, nesterov}; norm_coefficient: float",
     .tf = "ResourceApplyMomentum",
     .freedom = kStepFreedom,
     .infer = infer_step<3>,
     .eval = eval_momentum,
     .range = range_momentum},
};

}  // namespace

std::span<const OpDef> training_ops() { return kOps; }

}  // namespace finity
