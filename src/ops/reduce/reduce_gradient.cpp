#include "ops/reduce/reduce_gradient.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/reduce/reduce_attrs.h"
#include "ops/reduce/softmax_attrs.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using Axes = std::vector<std::int64_t>;

// No axes mean none here, not all.
ValueId reduce_over(BuildCall& call, std::string_view op, ValueId x, const Axes& axes, std::int64_t keep) {
  if (axes.empty()) return x;
  Attrs attrs;
  attrs.set("keepdims", keep);
  return call.add(op, {x, call.ints(axes)}, std::move(attrs));
}

}  // namespace

ValueId sum_over(BuildCall& call, ValueId x, const Axes& axes) { return reduce_over(call, "ReduceSum", x, axes, 1); }
ValueId mean_over(BuildCall& call, ValueId x, const Axes& axes) { return reduce_over(call, "ReduceMean", x, axes, 1); }
ValueId sum_away(BuildCall& call, ValueId x, const Axes& axes) { return reduce_over(call, "ReduceSum", x, axes, 0); }

ValueId unsqueeze(BuildCall& call, ValueId x, Axes axes) {
  if (axes.empty()) return x;
  return call.add("Unsqueeze", {x, call.ints(std::move(axes))});
}

ValueId expand_like(BuildCall& call, ValueId x, ValueId like) {
  if (call.dims(x) && call.dims(x) == call.dims(like)) return x;
  return call.add("Expand", {x, shape_vector(call, like)});
}

namespace {

// Known when the sizes are, at least along the axes where they differ.
std::optional<std::int64_t> known_ratio(const Type& x, const Type& y) {
  if (!x.ranked || !y.ranked || x.shape.size() != y.shape.size()) {
    const std::optional<Dims> from = x.dims(), to = y.dims();
    if (!from || !to || element_count(*to) == 0) return std::nullopt;
    return element_count(*from) / element_count(*to);
  }
  std::int64_t ratio = 1;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const Dim &wide = x.shape[i], &narrow = y.shape[i];
    if (surely_equal(wide, narrow)) continue;
    if (!wide.known() || !narrow.known() || narrow.size == 0) return std::nullopt;
    ratio *= wide.size / narrow.size;
  }
  return ratio;
}

}  // namespace

ValueId ratio_of_sizes(BuildCall& call, ValueId x, ValueId y, DType dtype) {
  if (const auto ratio = known_ratio(call.type(x), call.type(y))) {
    return call.scalar(static_cast<double>(std::max<std::int64_t>(*ratio, 1)), dtype);
  }
  const ValueId one = call.scalar(1, DType::int64);
  const ValueId most_once = call.add("Max", {call.add("Size", {y}), one});
  return call.cast(call.add("Max", {call.quotient(call.add("Size", {x}), most_once), one}), dtype);
}

ValueId shared_among_extremes(BuildCall& call, ValueId x, ValueId extreme, ValueId gradient, ValueId axes) {
  const ValueId is_extreme = call.cast(call.add("Equal", {x, extreme}), call.type(x).dtype);
  const ValueId ties = call.add("ReduceSum", {is_extreme, axes});
  const ValueId share = call.quotient(gradient, call.add("Max", {ties, call.scalar(1)}));
  return call.product(share, is_extreme);
}

// ---- reductions --------------------------------------------------------------

namespace {

// The operands of a reduction's gradient, with the reduced axes back in the result at size 1.
struct Reduction {
  ValueId x = {};
  ValueId y = {};
  ValueId gradient = {};
  ValueId axes = {};  // invalid: all of them
  bool reduces = true;
};

std::optional<ReduceAttrs> known_reduction(const BuildCall& call) {
  std::optional<Axes> axes;
  if (const Tensor* known = call.has_input(1) ? call.known(call.in(1)) : nullptr) axes = elements<std::int64_t>(*known);
  return read_reduce(call, axes);
}

Reduction read_reduction(BuildCall& call) {
  Reduction result{.x = call.in(0), .y = call.out(0), .gradient = call.grad(0)};
  const std::optional<ReduceAttrs> attrs = known_reduction(call);
  if (attrs && attrs->axes.empty()) {
    result.reduces = attrs->reduces;
    return result;  // a scalar fits without its axes
  }
  if (!attrs && call.integer("noop_with_empty_axes") != 0) {
    throw Unsupported("its derivative is not known when whether it reduces depends on data");
  }
  result.axes = attrs ? call.ints(attrs->axes) : call.in(1);
  if (call.integer("keepdims") != 0) return result;
  result.y = call.add("Unsqueeze", {result.y, result.axes});
  result.gradient = call.add("Unsqueeze", {result.gradient, result.axes});
  return result;
}

ValueId reduce_again(BuildCall& call, const Reduction& reduction, std::string_view op, ValueId x) {
  return reduction.reduces ? call.add(op, {x, reduction.axes}) : x;
}

}  // namespace

void reduce_sum_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  call.give(0, expand_like(call, r.gradient, r.x));
}

void reduce_mean_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  const ValueId share = call.quotient(r.gradient, ratio_of_sizes(call, r.x, r.y, call.dtype()));
  call.give(0, expand_like(call, share, r.x));
}

// Y / X, and where X is 0 the product of the others, which is not 0 only if they are not: neither PyTorch nor
// TensorFlow divides by an element that is 0.
void reduce_product_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  const ValueId zero = call.scalar(0), one = call.scalar(1);
  const ValueId is_zero = call.add("Equal", {r.x, zero});
  const ValueId divisor = call.add("Where", {is_zero, one, r.x});
  const ValueId zeros = reduce_again(call, r, "ReduceSum", call.cast(is_zero, call.dtype()));
  const ValueId others = reduce_again(call, r, "ReduceProd", divisor);
  const ValueId only = call.add("Where", {call.add("Equal", {zeros, one}), others, zero});
  const ValueId slope = call.add("Where", {is_zero, only, call.quotient(r.y, divisor)});
  call.give(0, call.product(r.gradient, slope));
}

void reduce_sum_square_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  call.give(0, call.product(r.gradient, call.product(call.scalar(2), r.x)));
}

void reduce_l1_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  call.give(0, call.product(r.gradient, call.add("Sign", {r.x})));
}

void reduce_l2_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  call.give(0, call.product(r.gradient, call.quotient(r.x, r.y)));
}

void reduce_log_sum_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  const ValueId slope = call.quotient(r.gradient, reduce_again(call, r, "ReduceSum", r.x));
  call.give(0, expand_like(call, slope, r.x));
}

void reduce_log_sum_exp_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  // No element exceeds the result, which the difference of two ranges does not know.
  const ValueId below = call.add("Min", {call.difference(r.x, r.y), call.scalar(0)});
  call.give(0, call.product(r.gradient, call.add("Exp", {below})));
}

void reduce_extreme_gradient(BuildCall& call) {
  const Reduction r = read_reduction(call);
  if (!r.reduces) return call.give(0, r.gradient);
  call.give(0, shared_among_extremes(call, r.x, r.y, r.gradient, r.axes));
}

// ---- softmax -----------------------------------------------------------------

ValueId softmax_slope(BuildCall& call, ValueId y, ValueId gradient, const Axes& axes) {
  const ValueId total = sum_over(call, call.product(gradient, y), axes);
  return call.product(y, call.difference(gradient, total));
}

ValueId log_softmax_slope(BuildCall& call, ValueId y, ValueId gradient, const Axes& axes) {
  const ValueId total = sum_over(call, gradient, axes);
  return call.difference(gradient, call.product(call.add("Exp", {y}), total));
}

namespace {

Axes softmax_axes(const BuildCall& call) {
  const SoftmaxAttrs attrs = read_softmax(call);
  if (!attrs.flat) return {attrs.axis};
  const std::size_t rank = call.rank(call.out(0));
  return axes_from(attrs.first(rank), rank);
}

}  // namespace

void softmax_gradient(BuildCall& call) {
  call.give(0, softmax_slope(call, call.out(0), call.grad(0), softmax_axes(call)));
}

void log_softmax_gradient(BuildCall& call) {
  call.give(0, log_softmax_slope(call, call.out(0), call.grad(0), softmax_axes(call)));
}

// ---- along an axis -----------------------------------------------------------

namespace {

ValueId top_indices(BuildCall& call, std::int64_t axis) {
  if (call.has_output(1)) return call.out(1);
  Attrs attrs;
  attrs.set("axis", axis);
  attrs.set("largest", call.integer("largest"));
  const ValueId k = call.has_input(1) ? call.in(1) : call.ints({call.integer("k")});
  return call.add_all("TopK", {call.in(0), k}, 2, std::move(attrs))[1];
}

ValueId running_sum(BuildCall& call, ValueId x) {
  Attrs attrs;
  attrs.set("exclusive", call.integer("exclusive"));
  attrs.set("reverse", std::int64_t{call.integer("reverse") == 0});
  return call.add("CumSum", {x, call.in(1)}, std::move(attrs));
}

}  // namespace

// Back to where the values came from.
void top_k_gradient(BuildCall& call) {
  const std::int64_t axis = call.integer("axis");
  Attrs attrs;
  attrs.set("axis", axis);
  call.give(0, call.add("ScatterElements", {call.zeros_like(call.in(0)), top_indices(call, axis), call.grad(0)},
                        std::move(attrs)));
}

// An element is part of all sums that come after it.
void running_sum_gradient(BuildCall& call) { call.give(0, running_sum(call, call.grad(0))); }

// The sum of all products that an element is part of, divided by it; 0 where it is 0, as TensorFlow has it.
void running_product_gradient(BuildCall& call) {
  const ValueId x = call.in(0), zero = call.scalar(0);
  const ValueId is_zero = call.add("Equal", {x, zero});
  const ValueId divisor = call.add("Where", {is_zero, call.scalar(1), x});
  const ValueId total = running_sum(call, call.product(call.grad(0), call.out(0)));
  call.give(0, call.add("Where", {is_zero, zero, call.quotient(total, divisor)}));
}

}  // namespace finity
