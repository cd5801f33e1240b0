#include "ops/recurrent/cell_activation.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace finity {

namespace {

double relu(double x, double, double) { return x < 0 ? 0 : x; }
double tanh_of(double x, double, double) { return std::tanh(x); }
double sigmoid(double x, double, double) { return 1 / (1 + std::exp(-x)); }
double affine(double x, double alpha, double beta) { return alpha * x + beta; }
double leaky_relu(double x, double alpha, double) { return x < 0 ? alpha * x : x; }
double thresholded_relu(double x, double alpha, double) { return x < alpha ? 0 : x; }
double scaled_tanh(double x, double alpha, double beta) { return alpha * std::tanh(beta * x); }
double hard_sigmoid(double x, double alpha, double beta) {
  const double y = alpha * x + beta;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
double elu(double x, double alpha, double) { return x < 0 ? alpha * std::expm1(x) : x; }
double softsign(double x, double, double) { return x / (1 + std::fabs(x)); }
double softplus(double x, double, double) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

struct Known {
  std::string_view name;  // lower case: exporters disagree about capitals
  double (*function)(double, double, double) = nullptr;
  bool takes_alpha = false;
  bool takes_beta = false;
  double alpha = 0;
  double beta = 0;
  bool exponential = false;
};

constexpr Known kKnown[] = {
    {"relu", relu},
    {"tanh", tanh_of},
    {"sigmoid", sigmoid},
    {"affine", affine, true, true, 1, 0},
    {"leakyrelu", leaky_relu, true, false, 0.01, 0},
    {"thresholdedrelu", thresholded_relu, true, false, 1, 0},
    {"scaledtanh", scaled_tanh, true, true, 1, 1},
    {"hardsigmoid", hard_sigmoid, true, true, 0.2, 0.5},
    {"elu", elu, true, false, 1, 0},
    {"softsign", softsign},
    {"softplus", softplus, false, false, 0, 0, true},
};

const Known& find_known(const std::string& name) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* found = std::ranges::find(kKnown, lower, &Known::name);
  if (found == std::end(kKnown)) throw Error("attribute 'activations' names the unknown function '" + name + "'");
  return *found;
}

double clip_of(const Call& call) {
  const double clip = call.real("clip", std::numeric_limits<double>::infinity());
  if (!(clip >= 0)) throw Error("attribute 'clip' is " + std::to_string(clip) + ", expected 0 or more");
  return clip;
}

// Hands out the list's elements one after another, the fallback once it is used up.
class Queue {
 public:
  explicit Queue(std::vector<double> values) : values_(std::move(values)) {}
  double take(bool wanted, double fallback) { return wanted && next_ < values_.size() ? values_[next_++] : fallback; }

 private:
  std::vector<double> values_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<CellActivation> cell_activations(const Call& call, const std::vector<std::string>& defaults,
                                             std::size_t directions) {
  std::vector<std::string> names = call.texts("activations");
  while (!call.has_attr("activations") && names.size() < defaults.size() * directions) {
    names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() < defaults.size() * directions) {
    throw Error("attribute 'activations' has " + std::to_string(names.size()) + " functions, expected " +
                std::to_string(defaults.size() * directions));
  }
  Queue alphas(call.reals("activation_alpha"));
  Queue betas(call.reals("activation_beta"));
  std::vector<CellActivation> result;
  for (std::size_t i = 0; i < defaults.size() * directions; ++i) {
    const Known& known = find_known(names[i]);
    result.push_back({known.function, alphas.take(known.takes_alpha, known.alpha),
                      betas.take(known.takes_beta, known.beta), clip_of(call), known.exponential});
  }
  return result;
}

}  // namespace finity
