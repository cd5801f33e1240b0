// One optimiser step on ranges. Libraries round after each operation, the reference once
// at the end: a step is computed both ways and joined.
#include "ops/extra/training/training_range.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/shared/function_range.h"

namespace finity {

namespace {

// One tensor: its elements, their gradients, and what is accumulated.
struct Step {
  Range x = {};
  Range gradient = {};
  Range state[2] = {};
};

// Arithmetic in one format.
struct Arithmetic {
  DType dtype = DType::float64;

  Range plus(const Range& a, const Range& b) const { return add(dtype, a, b); }
  Range minus(const Range& a, const Range& b) const { return subtract(dtype, a, b); }
  Range times(const Range& a, const Range& b) const { return multiply(dtype, a, b); }
  Range times(double a, const Range& b) const { return multiply(dtype, point(a), b); }
  Range over(const Range& a, const Range& b) const { return divide(dtype, a, b); }
  Range root(const Range& a) const { return sqrt_of(dtype, a); }
};

// A few roundings in another order, also of terms that cancel.
Range loosened(DType dtype, const Range& x, double magnitude) {
  if (!x.has_finite()) return x;
  const Slack slack{.ulps = 8, .absolute = 8 * unit_roundoff(dtype) * std::min(magnitude, max_finite(dtype))};
  Range range = granted(dtype, x.lo, x.hi, slack);
  range.nan |= x.nan;
  range.pinf |= x.pinf;
  range.ninf |= x.ninf;
  return range;
}

using Rule = std::function<void(const Arithmetic&, Step&, std::size_t tensor)>;

Range into(DType dtype, const Range& x) {
  Range range = x.has_finite() ? from_bounds(dtype, x.lo, x.hi) : Range{};
  range.nan |= x.nan;
  range.pinf |= x.pinf;
  range.ninf |= x.ninf;
  return range;
}

// After R and T come the tensors, their gradients, and one or two groups of state.
void range_step(RangeCall& call, std::size_t groups, const Rule& rule) {
  const std::size_t count = (call.input_count() - 2) / groups;
  for (std::size_t t = 0; t < count; ++t) {
    Step step{.x = call.hull(2 + t), .gradient = call.hull(2 + count + t)};
    for (std::size_t g = 2; g < groups; ++g) step.state[g - 2] = call.hull(2 + g * count + t);
    double magnitude = step.x.magnitude() + step.gradient.magnitude();
    for (const Range& state : step.state) magnitude += state.magnitude();
    Step exact = step;
    Step stepwise = step;
    const DType own = call.in_dtype(2 + t);
    rule({.dtype = DType::float64}, exact, t);
    rule({.dtype = own}, stepwise, t);
    const auto out = [&](std::size_t group, const Range& a, const Range& b) {
      const std::size_t output = group * count + t;
      if (!call.has_output(output)) return;
      const DType dtype = call.out_dtype(output);
      const Range both = join(into(dtype, a), into(dtype, b));
      call.out(output, loosened(dtype, both, magnitude + both.magnitude()));
    };
    out(0, exact.x, stepwise.x);
    for (std::size_t g = 2; g < groups; ++g) out(g - 1, exact.state[g - 2], stepwise.state[g - 2]);
  }
}

Range nonzero(const Range& x) {
  Range range = x;
  if (range.lo == 0) range.lo = 0x1p-1074;
  if (range.hi == 0) range.hi = -0x1p-1074;
  range.nonzero = range.lo < 0 && range.hi > 0;
  return range.has_finite() ? range : point(1);
}

// x - numerator / (sqrt(state) + epsilon). The divisor is looked at once, in the exact pass; after an alarm nothing
// more is known than that the result is a number.
Range descended(RangeCall& call, const Arithmetic& in, const Range& x, const Range& numerator, const Range& state,
                double epsilon, std::size_t operand) {
  Range legal = part_of(state, 0, kInf);
  legal.pinf = state.pinf;
  legal.nan = state.nan;
  const Range divisor = in.plus(in.root(legal), point(epsilon));
  if (in.dtype == DType::float64) {
    call.site("FN104", static_cast<int>(operand), state, state.may_be_negative());
    call.site("FN101", static_cast<int>(operand), divisor, divisor.may_be_zero());
  }
  if (divisor.may_be_zero() || divisor.is_empty()) return any_finite(call.in_dtype(operand));
  return in.minus(x, in.over(numerator, divisor));
}

// Once, before the tensors: R / (1 + T * decay).
Range decayed_rate(RangeCall& call) {
  const double decay = call.real("decay_factor");
  const Range divisor = add(DType::float64, point(1), multiply(DType::float64, call.hull(1), point(decay)));
  call.site("FN101", 1, divisor, divisor.may_be_zero());
  return divide(DType::float64, call.hull(0), nonzero(divisor));
}

// sqrt(1 - beta^T) / (1 - alpha^T) for T of at least 1, and 1 before the first update.
Range bias_correction(RangeCall& call, double alpha, double beta) {
  const Range updates = call.hull(1);
  if (!(alpha >= 0 && alpha < 1 && beta >= 0 && beta < 1)) return top(DType::float64);
  const auto factor = [&](double t) { return std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)); };
  Range range;
  if (updates.lo <= 0) range = point(1);
  if (updates.is_point() && updates.lo > 0) range = point(factor(updates.lo));
  else if (updates.hi > 0) range = join(range, from_bounds(DType::float64, std::sqrt(1 - beta), 1 / (1 - alpha)));
  if (range.has_finite()) range = from_bounds(DType::float64, range.lo * (1 - 1e-6), range.hi * (1 + 1e-6));
  return range;
}

}  // namespace

void range_adagrad(RangeCall& call) {
  const Range rate = decayed_rate(call);
  const double norm = call.real("norm_coefficient");
  const double epsilon = call.real("epsilon");
  const std::size_t count = (call.input_count() - 2) / 3;
  range_step(call, 3, [&](const Arithmetic& in, Step& e, std::size_t t) {
    const Range gradient = in.plus(in.times(norm, e.x), e.gradient);
    e.state[0] = in.plus(e.state[0], square(in.dtype, gradient));
    e.x = descended(call, in, e.x, in.times(rate, gradient), e.state[0], epsilon, 2 + 2 * count + t);
  });
}

void range_adam(RangeCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  const Range rate = multiply(DType::float64, call.hull(0), bias_correction(call, alpha, beta));
  const double norm = call.real("norm_coefficient");
  const double norm_post = call.real("norm_coefficient_post");
  const double epsilon = call.real("epsilon");
  const std::size_t count = (call.input_count() - 2) / 4;
  range_step(call, 4, [&](const Arithmetic& in, Step& e, std::size_t t) {
    const Range gradient = in.plus(in.times(norm, e.x), e.gradient);
    e.state[0] = in.plus(in.times(alpha, e.state[0]), in.times(1 - alpha, gradient));
    e.state[1] = in.plus(in.times(beta, e.state[1]), in.times(1 - beta, square(in.dtype, gradient)));
    const Range step = in.times(rate, e.state[0]);
    e.x = in.times(1 - norm_post, descended(call, in, e.x, step, e.state[1], epsilon, 2 + 3 * count + t));
  });
}

void range_momentum(RangeCall& call) {
  const double alpha = call.real("alpha");
  // The first step takes the whole gradient.
  const Range updates = call.hull(1);
  Range beta;
  if (updates.lo <= 0) beta = point(1);
  if (updates.hi > 0) beta = join(beta, point(call.real("beta")));
  const double norm = call.real("norm_coefficient");
  const Range rate = call.hull(0);
  const bool nesterov = call.text("mode") == "nesterov";
  range_step(call, 3, [&](const Arithmetic& in, Step& e, std::size_t) {
    const Range gradient = in.plus(in.times(norm, e.x), e.gradient);
    e.state[0] = in.plus(in.times(alpha, e.state[0]), in.times(beta, gradient));
    const Range direction = nesterov ? in.plus(gradient, in.times(alpha, e.state[0])) : e.state[0];
    e.x = in.minus(e.x, in.times(rate, direction));
  });
}

}  // namespace finity
