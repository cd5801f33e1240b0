// Optimisers: one step of each. Operands that are variables arrive as what they hold; what they hold afterwards is
// given in the same places, the variable itself first.
#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

// A step on whole variables, or, when there are indices, on those rows of them.
class Step {
 public:
  Step(TfCall& call, int indices) : call_(call), emit_(call), indices_(indices) {}

  ValueId slot(int i) { return indices_ < 0 ? call_.in(i) : emit_.gather(call_.in(i), call_.in(indices_), 0); }
  ValueId in(int i) { return call_.in(i); }
  void store(int i, ValueId value) {
    if (indices_ >= 0) {
      const ValueId rows = emit_.unsqueeze(emit_.int64(call_.in(indices_)), {-1});
      value = emit_.add("ScatterND", {call_.in(i), rows, value}, {{"reduction", "none"}});
    }
    call_.give(static_cast<std::size_t>(i), value);
  }

  ValueId number(double x) { return emit_.number_like(x, call_.in(0)); }
  ValueId sum(ValueId a, ValueId b) { return emit_.sum(a, b); }
  ValueId less(ValueId a, ValueId b) { return emit_.difference(a, b); }
  ValueId times(ValueId a, ValueId b) { return emit_.product(a, b); }
  ValueId over(ValueId a, ValueId b) { return emit_.quotient(a, b); }
  ValueId square(ValueId x) { return emit_.product(x, x); }
  ValueId call(std::string_view op, std::vector<ValueId> inputs) { return emit_.add(op, std::move(inputs)); }
  ValueId rsqrt(ValueId x) { return call("finity:Rsqrt", {x}); }
  // old + (fresh - old) (1 - keep)
  ValueId blended(ValueId old, ValueId fresh, ValueId keep) {
    return sum(old, times(less(fresh, old), less(number(1), keep)));
  }
  bool flag(std::string_view name, bool fallback) const { return call_.flag(name, fallback); }

 private:
  TfCall& call_;
  Emit emit_;
  int indices_;
};

// (var, alpha, delta)
void lower_gradient_descent(TfCall& call) {
  Step step(call, -1);
  step.store(0, step.less(step.slot(0), step.times(step.in(1), step.in(2))));
}

// (var, accum, lr, grad, momentum), with indices in front of momentum
void momentum_step(Step& step, int momentum_at) {
  const ValueId lr = step.in(2), gradient = step.in(3), momentum = step.in(momentum_at);
  const ValueId accumulated = step.sum(step.times(step.slot(1), momentum), gradient);
  const ValueId change = step.flag("use_nesterov", false)
                             ? step.sum(step.times(gradient, lr), step.times(step.times(accumulated, momentum), lr))
                             : step.times(accumulated, lr);
  step.store(0, step.less(step.slot(0), change));
  step.store(1, accumulated);
}
void lower_momentum(TfCall& call) {
  Step step(call, -1);
  momentum_step(step, 4);
}
void lower_sparse_momentum(TfCall& call) {
  Step step(call, 4);
  momentum_step(step, 5);
}

// (var, accum, lr, grad, momentum), with indices in front of momentum: what is kept is the step, not the gradients.
void keras_momentum_step(Step& step, int momentum_at) {
  const ValueId push = step.times(step.in(2), step.in(3)), momentum = step.in(momentum_at);
  const ValueId moved = step.less(step.times(step.slot(1), momentum), push);
  const ValueId change = step.flag("use_nesterov", false) ? step.less(step.times(moved, momentum), push) : moved;
  step.store(0, step.sum(step.slot(0), change));
  step.store(1, moved);
}
void lower_keras_momentum(TfCall& call) {
  Step step(call, -1);
  keras_momentum_step(step, 4);
}
void lower_sparse_keras_momentum(TfCall& call) {
  Step step(call, 4);
  keras_momentum_step(step, 5);
}

// (var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad)
void lower_ada_max(TfCall& call) {
  Step step(call, -1);
  const ValueId gradient = step.in(8);
  const ValueId m = step.blended(step.slot(1), gradient, step.in(5));
  const ValueId v = step.call("Max", {step.times(step.in(6), step.slot(2)), step.call("Abs", {gradient})});
  const ValueId rate = step.over(step.in(4), step.less(step.number(1), step.in(3)));
  step.store(0, step.less(step.slot(0), step.times(rate, step.over(m, step.sum(v, step.in(7))))));
  step.store(1, m);
  step.store(2, v);
}

// (var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)
void lower_adam(TfCall& call) {
  Step step(call, -1);
  const ValueId one = step.number(1), beta1 = step.in(6), gradient = step.in(9);
  const ValueId scale = step.over(step.call("Sqrt", {step.less(one, step.in(4))}), step.less(one, step.in(3)));
  const ValueId rate = step.times(step.in(5), scale);
  const ValueId m = step.blended(step.slot(1), gradient, beta1);
  const ValueId v = step.blended(step.slot(2), step.square(gradient), step.in(7));
  const ValueId direction = step.flag("use_nesterov", false)
                                ? step.sum(step.times(m, beta1), step.times(step.less(one, beta1), gradient))
                                : m;
  const ValueId divisor = step.sum(step.call("Sqrt", {v}), step.in(8));
  step.store(0, step.less(step.slot(0), step.over(step.times(direction, rate), divisor)));
  step.store(1, m);
  step.store(2, v);
}

// (var, accum, lr, grad[, indices])
void adagrad_step(Step& step, int gradient_at, int epsilon_at) {
  const ValueId gradient = step.in(gradient_at);
  const ValueId squares =
      step.flag("update_slots", true) ? step.sum(step.slot(1), step.square(gradient)) : step.slot(1);
  const ValueId push = step.times(gradient, step.in(2));
  const ValueId change = epsilon_at < 0 ? step.times(push, step.rsqrt(squares))
                                        : step.over(push, step.sum(step.call("Sqrt", {squares}), step.in(epsilon_at)));
  step.store(0, step.less(step.slot(0), change));
  step.store(1, squares);
}
void lower_adagrad(TfCall& call) {
  Step step(call, -1);
  adagrad_step(step, 3, -1);
}
void lower_sparse_adagrad(TfCall& call) {
  Step step(call, 4);
  adagrad_step(step, 3, -1);
}
// (var, accum, lr, epsilon, grad[, indices])
void lower_adagrad_v2(TfCall& call) {
  Step step(call, -1);
  adagrad_step(step, 4, 3);
}
void lower_sparse_adagrad_v2(TfCall& call) {
  Step step(call, 5);
  adagrad_step(step, 4, 3);
}

// (var, ms, mom, lr, rho, momentum, epsilon, grad[, indices]); centred: (var, mg, ms, mom, ...)
void rms_step(Step& step, bool centred) {
  const int more = centred ? 1 : 0, first = 3 + more;
  const ValueId gradient = step.in(first + 4), rho = step.in(first + 1);
  const ValueId squares = step.blended(step.slot(1 + more), step.square(gradient), rho);
  ValueId variance = step.sum(squares, step.in(first + 3));
  if (centred) {
    const ValueId mean = step.blended(step.slot(1), gradient, rho);
    variance = step.less(variance, step.square(mean));
    step.store(1, mean);
  }
  const ValueId push = step.times(step.times(gradient, step.in(first)), step.rsqrt(variance));
  const ValueId moved = step.sum(step.times(step.slot(2 + more), step.in(first + 2)), push);
  step.store(0, step.less(step.slot(0), moved));
  step.store(1 + more, squares);
  step.store(2 + more, moved);
}
void lower_rms_prop(TfCall& call) {
  Step step(call, -1);
  rms_step(step, false);
}
void lower_sparse_rms_prop(TfCall& call) {
  Step step(call, 8);
  rms_step(step, false);
}
void lower_centred_rms_prop(TfCall& call) {
  Step step(call, -1);
  rms_step(step, true);
}

// (var, accum, accum_update, lr, rho, epsilon, grad)
void lower_adadelta(TfCall& call) {
  Step step(call, -1);
  const ValueId rho = step.in(4), epsilon = step.in(5), gradient = step.in(6);
  const ValueId squares = step.blended(step.slot(1), step.square(gradient), rho);
  const ValueId root = step.call("Sqrt", {step.sum(step.slot(2), epsilon)});
  const ValueId update = step.times(step.times(root, step.rsqrt(step.sum(squares, epsilon))), gradient);
  step.store(0, step.less(step.slot(0), step.times(update, step.in(3))));
  step.store(1, squares);
  step.store(2, step.blended(step.slot(2), step.square(update), rho));
}

// (var, accum, linear, grad[, indices], lr, l1, l2, lr_power)
void ftrl_step(Step& step, int rest, bool shrinks = false) {
  const ValueId gradient = step.in(3), lr = step.in(rest), l1 = step.in(rest + 1), l2 = step.in(rest + 2);
  const ValueId power = step.call("Neg", {step.in(rest + (shrinks ? 4 : 3))});
  const ValueId before = step.slot(1), after = step.sum(before, step.square(gradient)), var = step.slot(0);
  const ValueId grown = step.call("Pow", {after, power});
  const ValueId sigma = step.over(step.less(grown, step.call("Pow", {before, power})), lr);
  // The second version has one more term in what the gradient adds, not in its square.
  const ValueId pull = shrinks ? step.times(step.times(step.number(2), step.in(rest + 3)), var) : ValueId();
  const ValueId added = shrinks ? step.sum(gradient, pull) : gradient;
  const ValueId linear = step.less(step.sum(step.slot(2), added), step.times(sigma, var));
  const ValueId quadratic = step.sum(step.over(grown, lr), step.times(step.number(2), l2));
  const ValueId kept = step.less(step.times(step.call("Sign", {linear}), l1), linear);
  const ValueId far = step.call("Greater", {step.call("Abs", {linear}), l1});
  step.store(0, step.call("Where", {far, step.over(kept, quadratic), step.number(0)}));
  step.store(1, after);
  step.store(2, linear);
}
void lower_ftrl(TfCall& call) {
  Step step(call, -1);
  ftrl_step(step, 4);
}
void lower_ftrl_v2(TfCall& call) {
  Step step(call, -1);
  ftrl_step(step, 4, true);
}
void lower_sparse_ftrl(TfCall& call) {
  Step step(call, 4);
  ftrl_step(step, 5);
}

// var shrunk towards 0 by what l1 takes, and divided by what l2 adds.
ValueId proximal(Step& step, ValueId var, ValueId rate, ValueId l1, ValueId l2) {
  const ValueId zero = step.number(0);
  const ValueId size = step.call("Max", {step.less(step.call("Abs", {var}), step.times(rate, l1)), zero});
  const ValueId shrunk = step.times(step.call("Sign", {var}), size);
  return step.over(shrunk, step.sum(step.number(1), step.times(l2, rate)));
}

// (var, accum, lr, l1, l2, grad)
void lower_proximal_adagrad(TfCall& call) {
  Step step(call, -1);
  const ValueId gradient = step.in(5), squares = step.sum(step.slot(1), step.square(gradient));
  const ValueId rate = step.times(step.in(2), step.rsqrt(squares));
  step.store(0, proximal(step, step.less(step.slot(0), step.times(gradient, rate)), rate, step.in(3), step.in(4)));
  step.store(1, squares);
}

// (var, alpha, l1, l2, delta)
void lower_proximal_descent(TfCall& call) {
  Step step(call, -1);
  const ValueId rate = step.in(1);
  step.store(0, proximal(step, step.less(step.slot(0), step.times(step.in(4), rate)), rate, step.in(2), step.in(3)));
}

constexpr Lowering kTrain[] = {
    {.op = "ApplyAdaMax", .lower = lower_ada_max},
    {.op = "ApplyAdadelta", .lower = lower_adadelta},
    {.op = "ApplyAdagrad", .lower = lower_adagrad},
    {.op = "ApplyAdagradV2", .lower = lower_adagrad_v2},
    {.op = "ApplyAdam", .lower = lower_adam},
    {.op = "ApplyCenteredRMSProp", .lower = lower_centred_rms_prop},
    {.op = "ApplyFtrl", .lower = lower_ftrl},
    {.op = "ApplyFtrlV2", .lower = lower_ftrl_v2},
    {.op = "ApplyGradientDescent", .lower = lower_gradient_descent},
    {.op = "ApplyMomentum", .lower = lower_momentum},
    {.op = "ApplyProximalAdagrad", .lower = lower_proximal_adagrad},
    {.op = "ApplyProximalGradientDescent", .lower = lower_proximal_descent},
    {.op = "ApplyRMSProp", .lower = lower_rms_prop},
    {.op = "ResourceApplyAdaMax", .lower = lower_ada_max},
    {.op = "ResourceApplyAdadelta", .lower = lower_adadelta},
    {.op = "ResourceApplyAdagrad", .lower = lower_adagrad},
    {.op = "ResourceApplyAdagradV2", .lower = lower_adagrad_v2},
    {.op = "ResourceApplyAdam", .lower = lower_adam},
    {.op = "ResourceApplyCenteredRMSProp", .lower = lower_centred_rms_prop},
    {.op = "ResourceApplyFtrl", .lower = lower_ftrl},
    {.op = "ResourceApplyFtrlV2", .lower = lower_ftrl_v2},
    {.op = "ResourceApplyGradientDescent", .lower = lower_gradient_descent},
    {.op = "ResourceApplyKerasMomentum", .lower = lower_keras_momentum},
    {.op = "ResourceApplyMomentum", .lower = lower_momentum},
    {.op = "ResourceApplyRMSProp", .lower = lower_rms_prop},
    {.op = "ResourceSparseApplyAdagrad", .lower = lower_sparse_adagrad},
    {.op = "ResourceSparseApplyAdagradV2", .lower = lower_sparse_adagrad_v2},
    {.op = "ResourceSparseApplyFtrl", .lower = lower_sparse_ftrl},
    {.op = "ResourceSparseApplyKerasMomentum", .lower = lower_sparse_keras_momentum},
    {.op = "ResourceSparseApplyMomentum", .lower = lower_sparse_momentum},
    {.op = "ResourceSparseApplyRMSProp", .lower = lower_sparse_rms_prop},
    {.op = "SparseApplyAdagrad", .lower = lower_sparse_adagrad},
    {.op = "SparseApplyFtrl", .lower = lower_sparse_ftrl},
    {.op = "SparseApplyMomentum", .lower = lower_sparse_momentum},
    {.op = "SparseApplyRMSProp", .lower = lower_sparse_rms_prop},
};

}  // namespace

std::span<const Lowering> train_lowerings() { return kTrain; }

}  // namespace finity::tensorflow
