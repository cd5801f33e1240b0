// Activation functions. Where LibTorch's own form cancels or has another threshold than the reference, it is written
// with functions that do not; branches that are not taken see operands for which they are finite, because a derivative
// of zero times infinity is NaN.
#include <cctype>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "ops/elementwise/activation_gradient.h"
#include "torch/lowering.h"

namespace finity {

at::Tensor exact_gelu(const at::Tensor& x) {
  return at::mul(at::mul(x, 0.5), at::erfc(at::mul(x, -1.0 / std::numbers::sqrt2)));
}

// 0.5 * (1 + tanh(u)) is the logistic function of 2u.
at::Tensor tanh_gelu(const at::Tensor& x) {
  const at::Tensor cubic = at::mul(at::mul(x, x), at::mul(x, 0.044715));
  const double factor = 2.0 * std::sqrt(2.0 / std::numbers::pi);
  return at::mul(x, at::sigmoid(at::mul(at::add(x, cubic), factor)));
}

at::Tensor swish(const at::Tensor& x, double alpha) {
  return at::mul(x, at::sigmoid(alpha == 1.0 ? x : at::mul(x, alpha)));
}

at::Tensor soft_plus(const at::Tensor& x) { return at::softplus(x, 1, x.scalar_type() == at::kDouble ? 700 : 80); }

at::Tensor exponential_linear(const at::Tensor& x, double alpha) {
  return at::where(at::lt(x, 0), at::mul(at::expm1(at::clamp_max(x, 0)), alpha), x);
}

namespace {

at::Tensor hard_sigmoid(const at::Tensor& x, double alpha, double beta) {
  return at::clamp(at::add(at::mul(x, alpha), beta), 0, 1);
}

at::Tensor soft_sign(const at::Tensor& x) { return at::div(x, at::add(at::abs(x), 1)); }

at::Tensor leaky(const at::Tensor& x, const at::Tensor& slope) { return at::where(at::lt(x, 0), at::mul(x, slope), x); }

template <at::Tensor (*F)(const at::Tensor&)>
void unary(TorchCall& call) {
  call.out(0, F(call.in(0)));
}

void lower_leaky_relu(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  call.out(0, at::where(at::lt(x, 0), at::mul(x, call.real("alpha")), x));
}

// Before opset 7 a slope of several elements is one per channel.
void lower_prelu(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  at::Tensor slope = call.in(1);
  if (slope.numel() == 1) {
    slope = slope.reshape({});
  } else if (call.version() < 7 && slope.dim() == 1 && x.dim() >= 2) {
    Dims dims(static_cast<std::size_t>(x.dim()) - 1, 1);
    dims[0] = slope.numel();
    slope = slope.reshape(dims);
  }
  const at::Tensor y = leaky(x, slope);
  if (y.sizes() != x.sizes()) throw Error("slope does not broadcast to the operand's shape");
  call.out(0, y);
}

void lower_thresholded_relu(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  call.out(0, at::where(at::gt(x, call.real("alpha")), x, at::zeros_like(x)));
}

void lower_elu(TorchCall& call) { call.out(0, exponential_linear(call.in(0), call.real("alpha"))); }

void lower_celu(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const double alpha = call.real("alpha");
  const at::Tensor below = at::mul(at::expm1(at::div(at::clamp_max(x, 0), alpha)), alpha);
  if (alpha > 0) return call.out(0, at::where(at::lt(x, 0), below, x));
  const at::Tensor other = at::mul(at::expm1(at::div(x, alpha)), alpha);
  call.out(0, at::add(at::clamp_min(x, 0), at::clamp_max(other, 0)));
}

void lower_selu(TorchCall& call) {
  call.out(0, at::mul(exponential_linear(call.in(0), selu_alpha(call)), selu_gamma(call)));
}

void lower_hard_sigmoid(TorchCall& call) {
  call.out(0, hard_sigmoid(call.in(0), call.real("alpha"), call.real("beta")));
}

void lower_hard_swish(TorchCall& call) { call.out(0, at::mul(call.in(0), hard_sigmoid(call.in(0), 1.0 / 6.0, 0.5))); }

void lower_swish(TorchCall& call) { call.out(0, swish(call.in(0), call.real("alpha"))); }

void lower_swiglu(TorchCall& call) {
  if (call.in(0).sizes() != call.in(1).sizes()) throw Error("inputs A and B differ in shape");
  call.out(0, at::mul(swish(call.in(0), call.real("alpha")), call.in(1)));
}

void lower_gelu(TorchCall& call) {
  call.out(0, call.text("approximate") == "tanh" ? tanh_gelu(call.in(0)) : exact_gelu(call.in(0)));
}

// Integers too: computed in float64 and truncated.
void lower_shrink(TorchCall& call) {
  const at::Tensor x = as_float(call.in(0));
  const double bias = call.real("bias");
  const double limit = call.real("lambd");
  const at::Tensor zero = at::zeros_like(x);
  const at::Tensor above = at::where(at::gt(x, limit), at::sub(x, bias), zero);
  call.out(0, at::where(at::lt(x, -limit), at::add(x, bias), above));
}

// ---- com.microsoft and legacy ops -------------------------------------------

void require_same_shape(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) throw Error("operands differ in shape");
}

void lower_affine(TorchCall& call) { call.out(0, at::add(at::mul(call.in(0), call.real("alpha")), call.real("beta"))); }

void lower_scale(TorchCall& call) { call.out(0, at::mul(call.in(0), call.real("scale"))); }

void lower_relu_grad(TorchCall& call) {
  require_same_shape(call.in(0), call.in(1));
  call.out(0, at::where(at::gt(call.in(1), 0), call.in(0), at::zeros_like(call.in(0))));
}

void lower_image_scaler(TorchCall& call) {
  const at::Tensor scaled = at::mul(call.in(0), call.real("scale"));
  const std::vector<double> bias = call.reals("bias");
  if (bias.empty()) return call.out(0, scaled);
  if (scaled.dim() != 4 || static_cast<std::int64_t>(bias.size()) != scaled.size(1))
    throw Error("attribute 'bias' has not one value per channel");
  call.out(0, at::add(scaled, list_of(bias).to(scaled.scalar_type()).reshape({-1, 1, 1})));
}

constexpr TorchLowering kEntries[] = {
    {"ImageScaler", "", lower_image_scaler},
    {"Relu", "", unary<at::relu>},
    {"LeakyRelu", "", lower_leaky_relu},
    {"PRelu", "", lower_prelu},
    {"ThresholdedRelu", "", lower_thresholded_relu},
    {"Elu", "", lower_elu},
    {"Celu", "", lower_celu},
    {"Selu", "", lower_selu},
    {"Sigmoid", "", unary<at::sigmoid>},
    {"HardSigmoid", "", lower_hard_sigmoid},
    {"HardSwish", "", lower_hard_swish},
    {"Swish", "", lower_swish},
    {"SwiGLU", "", lower_swiglu},
    {"Softplus", "", unary<soft_plus>},
    {"Softsign", "", unary<soft_sign>},
    {"Mish", "", unary<at::mish>},
    {"Gelu", "", lower_gelu},
    {"Shrink", "", lower_shrink},
    {"ReluGrad", "com.microsoft", lower_relu_grad},
    {"Affine", "", lower_affine},
    {"Scale", "", lower_scale},
};

}  // namespace

std::span<const TorchLowering> torch_activations() { return kEntries; }

at::Tensor activated(std::string_view function, const at::Tensor& x, double alpha, double beta) {
  std::string name(function);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name == "relu") return at::relu(x);
  if (name == "tanh") return at::tanh(x);
  if (name == "sigmoid") return at::sigmoid(x);
  if (name == "affine") return at::add(at::mul(x, alpha), beta);
  if (name == "leakyrelu") return at::where(at::lt(x, 0), at::mul(x, alpha), x);
  if (name == "thresholdedrelu") return at::where(at::lt(x, alpha), at::zeros_like(x), x);
  if (name == "scaledtanh") return at::mul(at::tanh(at::mul(x, beta)), alpha);
  if (name == "hardsigmoid") return hard_sigmoid(x, alpha, beta);
  if (name == "elu") return exponential_linear(x, alpha);
  if (name == "softsign") return soft_sign(x);
  if (name == "softplus") return soft_plus(x);
  throw Error("attribute names the unknown function '" + std::string(function) + "'");
}

}  // namespace finity
