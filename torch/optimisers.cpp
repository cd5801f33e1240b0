#include "torch/optimisers.h"

#include <torch/optim.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "torch/errors.h"
#include "torch/value.h"

namespace finity {

namespace {

namespace optim = ::torch::optim;

std::unique_ptr<optim::Optimizer> make(const std::string& name, const std::vector<at::Tensor>& weights) {
  constexpr double kTiny = 1e-7;
  if (name == "sgd") return std::make_unique<optim::SGD>(weights, optim::SGDOptions(0.01));
  if (name == "rmsprop")
    return std::make_unique<optim::RMSprop>(weights, optim::RMSpropOptions(0.001).alpha(0.9).eps(kTiny));
  if (name == "adagrad") return std::make_unique<optim::Adagrad>(weights, optim::AdagradOptions(0.01).eps(kTiny));
  // Keras adds its epsilon before the square root is corrected for the first steps, LibTorch after.
  if (name == "adam")
    return std::make_unique<optim::Adam>(weights, optim::AdamOptions(0.001).eps(kTiny / std::sqrt(1 - 0.999)));
  throw Unsupported("LibTorch has no optimiser " + name);
}

}  // namespace

NamedData optimiser_step(const std::string& name, const NamedData& data) {
  if (data.size() % 2 != 0) throw Error("each weight wants a gradient");
  std::vector<at::Tensor> weights;
  for (std::size_t i = 0; i < data.size(); i += 2) {
    at::Tensor weight = to_value(data[i].second).tensor, gradient = to_value(data[i + 1].second).tensor;
    if (!weight.defined() || !gradient.defined() || weight.sizes() != gradient.sizes())
      throw Error("'" + data[i].first + "' and its gradient differ in shape");
    weight.set_requires_grad(true);
    weight.mutable_grad() = gradient;
    weights.push_back(weight);
  }
  with_torch_errors([&] { make(name, weights)->step(); });
  NamedData moved;
  for (std::size_t i = 0; i < weights.size(); ++i)
    moved.emplace_back(data[2 * i].first, to_host(weights[i], DType::float32));
  return moved;
}

}  // namespace finity
