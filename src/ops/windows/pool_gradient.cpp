#include "ops/windows/pool_gradient.h"

#include "ops/reduce/reduce_gradient.h"
#include "ops/windows/pool_windows.h"

namespace finity {

namespace {

// The derivative of (sum of |x|^p)^(1/p) is sign(x) |x|^(p-1) / y^(p-1): the part of each element, and what the
// gradient of each window is divided by.
ValueId element_part(BuildCall& call, double p) {
  const ValueId x = call.in(0);
  if (p == 1) return call.add("Sign", {x});
  if (p == 2) return x;
  return call.product(call.add("Sign", {x}), call.add("Pow", {call.add("Abs", {x}), call.scalar(p - 1)}));
}

ValueId window_part(BuildCall& call, double p) {
  if (p == 1) return call.grad(0);
  const ValueId divisor = p == 2 ? call.out(0) : call.add("Pow", {call.out(0), call.scalar(p - 1)});
  return call.quotient(call.grad(0), divisor);
}

std::vector<std::int64_t> spatial_axes(BuildCall& call) { return axes_from(2, call.rank(call.in(0))); }

}  // namespace

void max_pool_gradient(BuildCall& call) {
  call.give(0, call.add("finity:MaxPoolGradient", {call.grad(0), call.in(0)}, call.attrs()));
}

void average_pool_gradient(BuildCall& call) {
  call.give(0, call.add("finity:AveragePoolGradient", {call.grad(0), call.in(0)}, call.attrs()));
}

void lp_pool_gradient(BuildCall& call) {
  const double p = pool_exponent(call.attrs()).value();
  Attrs attrs;
  for (const auto& [name, value] : call.attrs()) {
    if (name != "p") attrs.set(name, value);
  }
  const ValueId windows = call.add("finity:SumPoolGradient", {window_part(call, p), call.in(0)}, std::move(attrs));
  call.give(0, call.product(windows, element_part(call, p)));
}

void global_max_pool_gradient(BuildCall& call) {
  const std::vector<std::int64_t> axes = spatial_axes(call);
  if (axes.empty()) return call.give(0, call.grad(0));
  call.give(0, shared_among_extremes(call, call.in(0), call.out(0), call.grad(0), call.ints(axes)));
}

void global_average_pool_gradient(BuildCall& call) {
  const ValueId count = ratio_of_sizes(call, call.in(0), call.out(0), call.dtype());
  call.give(0, expand_like(call, call.quotient(call.grad(0), count), call.in(0)));
}

void global_lp_pool_gradient(BuildCall& call) {
  const double p = pool_exponent(call.attrs()).value();
  call.give(0, call.product(window_part(call, p), element_part(call, p)));
}

// Every element is taken from where it was put.
void max_unpool_gradient(BuildCall& call) {
  if (call.has_input(2)) throw Unsupported("its derivative is not known with output_shape");
  call.give(0, call.add("Gather", {reshape_to(call, call.grad(0), {-1}), call.in(1)}));
}

// Each window takes from where its largest element is; which one that is changes in steps. Without elements it is none.
void max_pool_second_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const Attrs attrs = with_attr(call.attrs(), "storage_order", std::int64_t{0});
  const ValueId places = call.add_all("MaxPool", {call.in(1)}, 2, attrs).back();
  const ValueId taken = call.add("Gather", {reshape_to(call, call.grad(0), {-1}), places});
  const ValueId nowhere = call.add("Less", {places, call.scalar(0, DType::int64)});
  call.give(0, call.add("Where", {nowhere, call.scalar(0), taken}));
}

void average_pool_second_gradient(BuildCall& call) {
  if (call.wanted(0)) call.give(0, call.add("AveragePool", {call.grad(0)}, call.attrs()));
}

// The sum of each window is its mean times the number of its elements.
void sum_pool_second_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const ValueId ones = call.ones_like(call.in(1));
  const ValueId counts = call.add("LpPool", {ones}, with_attr(call.attrs(), "p", std::int64_t{1}));
  call.give(0, call.product(call.add("AveragePool", {call.grad(0)}, call.attrs()), counts));
}

}  // namespace finity
