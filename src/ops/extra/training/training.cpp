// Optimisers of ONNX's training preview: one step of gradient descent on any number of tensors. And what ONNX
// Runtime's training graphs use besides ordinary ops.
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/extra/training/training_range.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
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

// ---- ONNX Runtime's training graphs ------------------------------------------------

void eval_relu_gradient(EvalCall& call) {
  const Tensor& gradient = call.in(0);
  if (gradient.dims() != call.in(1).dims()) throw Error("X has shape " + to_string(call.in(1).dims()));
  call.out(0, map_binary(gradient, call.in(1), gradient.dtype(), [](auto dy, auto x) { return x > 0 ? dy : 0; }));
}

void range_relu_gradient(RangeCall& call) {
  range_binary(call, [](const Range& dy, const Range& x, DType) {
    const Range kept = x.may_be_positive() ? dy : Range{};
    return x.is_empty() || dy.is_empty() ? Range{} : x.lo > 0 && !x.ninf && !x.nan ? kept : join(kept, point(0));
  });
}

void infer_accumulator(InferCall& call) {
  call.set_shape(0, {Dim::of(1)});
  if (call.ranked(0)) call.set_shape(1, call.shape(0));
}

void eval_accumulator(EvalCall& call) {
  const Tensor& value = call.in(1);
  if (call.in(0).dims() != value.dims()) throw Error("value has shape " + to_string(value.dims()));
  const bool overwrite = call.has_input(2) && call.in(2).size() > 0 && element_as_int(call.in(2), 0) != 0;
  const auto next = [&](auto old, auto x) { return overwrite ? x : old + x; };
  call.out(0, from_elements<std::int64_t>(DType::boolean, {1}, {1}));
  call.out(1, map_binary(call.in(0), value, call.in(0).dtype(), next));
}

// The sum is kept whether or not anybody asks for it as a result.
void range_accumulator(RangeCall& call) {
  const DType dtype = call.in_dtype(0);
  const bool asked = call.has_range(2) && !call.hull(2).is_empty();  // a flag without elements is not set
  const Range overwrite = asked ? call.hull(2) : point(0);
  Range sum = add(dtype, call.hull(0), call.hull(1));
  const bool overflows =
      (sum.pinf && !call.hull(0).pinf && !call.hull(1).pinf) || (sum.ninf && !call.hull(0).ninf && !call.hull(1).ninf);
  const bool adds = overwrite.may_be_zero();
  if (!adds) sum = call.hull(1);
  else if (overwrite.may_be_positive()) sum = join(sum, call.hull(1));
  call.out(0, point(1));
  if (call.has_output(1)) call.out(1, sum);
  else call.site("FN203", 1, sum, adds && overflows);
}

constexpr std::string_view kMicrosoft = "com.microsoft";

const OpDef kOps[] = {
    {.identity = {.name = "ReluGrad",
                  .domain = kMicrosoft,
                  .summary = "the gradient where X is positive, else 0",
                  .signature = "(dY: T, X: T) -> (dX: T) where T: float"},
     .meaning = {.infer = infer_same_shape, .eval = eval_relu_gradient},
     .analysis = {.range = range_relu_gradient, .vjp = gradients<"dY: Where(Greater(X, 0), ddX, 0)">},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "InPlaceAccumulatorV2",
                  .domain = kMicrosoft,
                  .summary = "adds a value to a buffer, or puts it in its place",
                  .signature = "(accumulation_buffer: T, value: T, overwrite_flag?: bool) -> "
                               "(updated_flag: bool, accumulation_buffer_out?: T) where T: float"},
     .meaning = {.infer = infer_accumulator, .eval = eval_accumulator},
     .analysis = {.range = range_accumulator, .hazards = accumulator_hazards()}},
    {.identity = {.name = "Adagrad",
                  .domain = kDomain,
                  .summary = "a step of the Adagrad optimiser",
                  .signature = kSignature,
                  .attrs = "decay_factor: float = 0; epsilon: float = 0; norm_coefficient: float = 0",
                  .tf = "ResourceApplyAdagradV2"},
     .meaning = {.infer = infer_step<3>, .eval = eval_adagrad, .freedom = kStepFreedom},
     .analysis = {.range = range_adagrad, .hazards = adagrad_hazards()}},
    {.identity = {.name = "Adam",
                  .domain = kDomain,
                  .summary = "a step of the Adam optimiser",
                  .signature = kSignature,
                  .attrs = "alpha: float = 0.9; beta: float = 0.999; epsilon: float = 0; norm_coefficient: float = 0; "
                           "norm_coefficient_post: float = 0",
                  .tf = "ResourceApplyAdam"},
     .meaning = {.infer = infer_step<4>, .eval = eval_adam, .freedom = kStepFreedom},
     .analysis = {.range = range_adam, .hazards = adam_hazards()}},
    {.identity = {.name = "Momentum",
                  .domain = kDomain,
                  .summary = "a step of gradient descent with standard or Nesterov momentum",
                  .signature = kSignature,
                  .attrs = "alpha: float; beta: float; mode: string {standard, nesterov}; norm_coefficient: float",
                  .tf = "ResourceApplyMomentum"},
     .meaning = {.infer = infer_step<3>, .eval = eval_momentum, .freedom = kStepFreedom},
     .analysis = {.range = range_momentum}},
};

}  // namespace

std::span<const OpDef> training_ops() { return kOps; }

}  // namespace finity
