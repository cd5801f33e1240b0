#include "ops/cell_activation.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "ops/function_range.h"

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

// ---- ranges ----------------------------------------------------------------

Range relu_bounds(DType dtype, const Range& x, double, double, int) { return relu_of(dtype, x); }
Range tanh_bounds(DType dtype, const Range& x, double, double, int ulps) { return tanh_of(dtype, x, ulps); }
Range sigmoid_bounds(DType dtype, const Range& x, double, double, int ulps) { return sigmoid_of(dtype, x, ulps); }
Range affine_bounds(DType dtype, const Range& x, double alpha, double beta, int) {
  return affine_of(dtype, x, attribute_range(dtype, alpha), attribute_range(dtype, beta));
}
Range leaky_relu_bounds(DType dtype, const Range& x, double alpha, double, int) {
  return leaky_relu_of(dtype, x, attribute_range(dtype, alpha));
}
Range thresholded_relu_bounds(DType dtype, const Range& x, double alpha, double, int) {
  return thresholded_relu_of(dtype, x, alpha);
}
Range scaled_tanh_bounds(DType dtype, const Range& x, double alpha, double beta, int ulps) {
  return scaled_tanh_of(dtype, x, alpha, beta, ulps);
}
Range hard_sigmoid_bounds(DType dtype, const Range& x, double alpha, double beta, int) {
  return hard_sigmoid_of(dtype, x, alpha, beta);
}
Range elu_bounds(DType dtype, const Range& x, double alpha, double, int ulps) { return elu_of(dtype, x, alpha, ulps); }
Range softsign_bounds(DType dtype, const Range& x, double, double, int ulps) { return softsign_of(dtype, x, ulps); }
Range softplus_bounds(DType dtype, const Range& x, double, double, int ulps) { return softplus_of(dtype, x, ulps); }

struct Known {
  std::string_view name;  // lower case: exporters disagree about capitals
  double (*function)(double, double, double) = nullptr;
  Range (*bounds)(DType, const Range&, double, double, int) = nullptr;
  bool takes_alpha = false;
  bool takes_beta = false;
  double alpha = 0;
  double beta = 0;
};

constexpr Known kKnown[] = {
    {"relu", relu, relu_bounds},
    {"tanh", tanh_of, tanh_bounds},
    {"sigmoid", sigmoid, sigmoid_bounds},
    {"affine", affine, affine_bounds, true, true, 1, 0},
    {"leakyrelu", leaky_relu, leaky_relu_bounds, true, false, 0.01, 0},
    {"thresholdedrelu", thresholded_relu, thresholded_relu_bounds, true, false, 1, 0},
    {"scaledtanh", scaled_tanh, scaled_tanh_bounds, true, true, 1, 1},
    {"hardsigmoid", hard_sigmoid, hard_sigmoid_bounds, true, true, 0.2, 0.5},
    {"elu", elu, elu_bounds, true, false, 1, 0},
    {"softsign", softsign, softsign_bounds},
    {"softplus", softplus, softplus_bounds},
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
                      betas.take(known.takes_beta, known.beta), clip_of(call), known.bounds});
  }
  return result;
}

Range CellActivation::operator()(DType dtype, const Range& x, int ulps) const {
  Range clipped = x;
  if (clip < max_finite(dtype) || x.pinf || x.ninf) {
    const Range limit = attribute_range(dtype, clip);
    clipped = x.is_empty() ? x : maximum(minimum(x, limit), negate(DType::float64, limit));
  }
  return bounds(dtype, clipped, alpha, beta, ulps);
}

}  // namespace finity
