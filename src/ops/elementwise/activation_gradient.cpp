#include "ops/elementwise/activation_gradient.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"

namespace finity {

// The defaults got more digits in opset 6; attributes are float32.
double selu_alpha(const Call& call) {
  return call.real("alpha", static_cast<double>(call.version() >= 6 ? 1.67326319217681884765625F : 1.6732F));
}
double selu_gamma(const Call& call) {
  return call.real("gamma", static_cast<double>(call.version() >= 6 ? 1.05070102214813232421875F : 1.0507F));
}

namespace {

// Of x * sigmoid(alpha * x): s + alpha x s (1 - s).
ValueId swish_slope(BuildCall& call, ValueId x) {
  const ValueId scaled = call.product(call.scalar(call.real("alpha")), x);
  const ValueId s = call.add("Sigmoid", {scaled});
  return call.sum(s, call.product(scaled, call.product(s, call.difference(call.scalar(1), s))));
}

}  // namespace

void selu_gradient(BuildCall& call) {
  const double alpha = selu_alpha(call), gamma = selu_gamma(call);
  const ValueId positive = call.add("Greater", {call.in(0), call.scalar(0)});
  const ValueId below = call.sum(call.out(0), call.scalar(alpha * gamma));
  call.give(0, call.product(call.grad(0), call.add("Where", {positive, call.scalar(gamma), below})));
}

void prelu_gradient(BuildCall& call) {
  // Before opset 7 slopes belong to channels, which the sum over repeated axes does not know.
  const std::optional<Dims> slopes = call.dims(call.in(1));
  if (call.version() < 7 && (!slopes || element_count(*slopes) != 1)) {
    throw Unsupported("its derivative is not known for slopes of channels before opset 7");
  }
  give_gradients(call, "X: Where(Greater(X, 0), dY, Mul(slope, dY)); slope: Where(Greater(X, 0), 0, Mul(X, dY))");
}

void swish_gradient(BuildCall& call) { call.give(0, call.product(call.grad(0), swish_slope(call, call.in(0)))); }

void swiglu_gradient(BuildCall& call) {
  const ValueId a = call.in(0), b = call.in(1);
  call.give(0, call.product(call.grad(0), call.product(b, swish_slope(call, a))));
  if (!call.wanted(1)) return;
  const ValueId s = call.add("Sigmoid", {call.product(call.scalar(call.real("alpha")), a)});
  call.give(1, call.product(call.grad(0), call.product(a, s)));
}

// Of x tanh(softplus(x)): t + x (1 - t^2) sigmoid(x).
void mish_gradient(BuildCall& call) {
  const ValueId x = call.in(0);
  const ValueId t = call.add("Tanh", {call.add("Softplus", {x})});
  const ValueId bend = call.difference(call.scalar(1), call.product(t, t));
  const ValueId slope = call.sum(t, call.product(x, call.product(bend, call.add("Sigmoid", {x}))));
  call.give(0, call.product(call.grad(0), slope));
}

// Distribution plus x times density; with tanh, the derivative of the approximation itself.
void gelu_gradient(BuildCall& call) {
  const ValueId x = call.in(0), half = call.scalar(0.5), one = call.scalar(1);
  const ValueId square = call.product(x, x);
  ValueId slope;
  if (call.text("approximate") == "tanh") {
    const double root = std::sqrt(2.0 / std::numbers::pi);
    const ValueId cubed = call.sum(one, call.product(call.scalar(0.044715), square));
    const ValueId t = call.add("Tanh", {call.product(call.scalar(root), call.product(x, cubed))});
    const ValueId inner = call.sum(call.scalar(root), call.product(call.scalar(3 * 0.044715 * root), square));
    const ValueId bend = call.product(call.difference(one, call.product(t, t)), call.product(x, inner));
    slope = call.product(half, call.sum(call.sum(one, t), bend));
  } else {
    const ValueId share = call.add("Erf", {call.product(x, call.scalar(1 / std::numbers::sqrt2))});
    const ValueId density = call.product(call.scalar(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2),
                                         call.add("Exp", {call.product(call.scalar(-0.5), square)}));
    slope = call.sum(call.product(half, call.sum(one, share)), call.product(x, density));
  }
  call.give(0, call.product(call.grad(0), slope));
}

}  // namespace finity
