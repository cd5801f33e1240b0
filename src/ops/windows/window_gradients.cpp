// Gradients of ops that slide a window over an input, in finity's own domain: what no other op expresses. Attributes
// are those of the op itself. An operand `like` only tells the shape of the result.
#include <algorithm>
#include <span>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/linear/dot_range.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/windows/direct_convolution.h"
#include "ops/windows/pool_gradient.h"
#include "ops/windows/pool_windows.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";

template <std::size_t kLike>
void infer_like(InferCall& call) {
  if (call.ranked(kLike)) call.set_shape(0, call.shape(kLike));
}

void require_dims(const Tensor& gradient, const Dims& expected) {
  if (gradient.dims() == expected) return;
  throw Error("the gradient has shape " + to_string(gradient.dims()) + ", expected " + to_string(expected));
}

// ---- convolution -----------------------------------------------------------

// Calls f(output, input, count, step) for the rows of outputs that one tap of the kernel serves: outputs follow each
// other, the inputs below them are `step` apart.
template <class F>
void visit_tap(std::span<const PlacedAxis> axes, std::span<const std::int64_t> tap, std::int64_t output,
               std::int64_t input, const F& f) {
  const PlacedAxis& axis = axes.front();
  const auto [begin, end] = outputs_of_tap(axis, tap.front());
  const std::int64_t start = begin * axis.stride - axis.pad_begin + tap.front() * axis.dilation;
  output *= axis.output;
  input *= axis.input;
  if (axes.size() == 1) {
    if (end > begin) f(output + begin, input + start, end - begin, axis.stride);
    return;
  }
  for (std::int64_t o = begin; o < end; ++o) {
    visit_tap(axes.subspan(1), tap.subspan(1), output + o, input + start + (o - begin) * axis.stride, f);
  }
}

// Calls f(weight, output, input, count, step) for everything that was multiplied by each weight.
template <class F>
void visit_products(const ConvPlan& plan, const F& f) {
  Dims kernel;
  for (const PlacedAxis& axis : plan.axes) kernel.push_back(axis.kernel);
  const std::int64_t channels = plan.groups * plan.out_channels;
  const std::int64_t in_plane = input_count(plan.axes), out_plane = output_count(plan.axes);
  std::int64_t weight = 0;
  for (std::int64_t m = 0; m < channels; ++m) {
    for (std::int64_t c = 0; c < plan.in_channels; ++c) {
      const std::int64_t channel = m / plan.out_channels * plan.in_channels + c;
      for (IndexCounter tap(kernel); tap.valid(); tap.next(), ++weight) {
        for (std::int64_t n = 0; n < plan.batch; ++n) {
          const std::int64_t output = (n * channels + m) * out_plane;
          const std::int64_t input = (n * plan.groups * plan.in_channels + channel) * in_plane;
          visit_tap(std::span<const PlacedAxis>(plan.axes), tap.index(), 0, 0,
                    [&](std::int64_t o, std::int64_t i, std::int64_t count, std::int64_t step) {
                      f(weight, output + o, input + i, count, step);
                    });
        }
      }
    }
  }
}

// Every input gets the gradients of the outputs it went into, times the weights it was multiplied by.
void eval_input_gradient(EvalCall& call) {
  const Tensor &gradient = call.in(0), &w = call.in(1), &like = call.in(2);
  const ConvPlan plan = plan_convolution(call, like.dims(), w.dims());
  require_dims(gradient, plan.out_dims());
  call.out(0, with_float_sum_type(like.dtype(), [&]<class A>() {
             const std::vector<A> from = elements<A>(gradient), weights = elements<A>(w);
             std::vector<A> sums(result_count(like.dims()));
             visit_products(plan, [&](std::int64_t weight, std::int64_t output, std::int64_t input, std::int64_t count,
                                      std::int64_t step) {
               add_scaled(sums.data() + input, step, from.data() + output, 1, weights[static_cast<std::size_t>(weight)],
                          count);
             });
             return from_elements<A>(like.dtype(), like.dims(), sums);
           }));
}

// Every weight gets the gradients of all outputs, times the inputs it was multiplied by there.
void eval_weight_gradient(EvalCall& call) {
  const Tensor &gradient = call.in(0), &x = call.in(1), &like = call.in(2);
  const ConvPlan plan = plan_convolution(call, x.dims(), like.dims());
  require_dims(gradient, plan.out_dims());
  call.out(0, with_float_sum_type(like.dtype(), [&]<class A>() {
             const std::vector<A> from = elements<A>(gradient), inputs = elements<A>(x);
             std::vector<A> sums(result_count(like.dims()));
             visit_products(plan, [&](std::int64_t weight, std::int64_t output, std::int64_t input, std::int64_t count,
                                      std::int64_t step) {
               check_time_after(count);
               const A* const a = from.data() + output;
               const A* const b = inputs.data() + input;
               sums[static_cast<std::size_t>(weight)] +=
                   pairwise_sum<A>(count, [&](std::int64_t i) { return a[i] * b[i * step]; });
             });
             return from_elements<A>(like.dtype(), like.dims(), sums);
           }));
}

// ---- ranges of sums --------------------------------------------------------

// Up to `most` products of elements of both.
void range_products(RangeCall& call, const Range& a, const Range& b, double most) {
  if (a.is_empty() || b.is_empty()) return call.out(0, Range{});
  DotSum sum;
  add_products(sum, a, b, 0, most);
  call.out(0, rounded(call, call.out_dtype(0), sum, most));
}

// How many elements there are along the axes from `first` on.
double most_from(const AbsTensor& x, std::size_t first) {
  if (!x.ranked) return kManyElements;
  double most = 1;
  for (std::size_t i = first; i < x.rank(); ++i) most *= x.size_limits(i).most;
  return std::min(most, kManyElements);
}

// At most all outputs of its group at all positions of the kernel.
void range_input_gradient(RangeCall& call) {
  const AbsTensor& w = call.in(1);
  const double channels = w.ranked && w.rank() > 0 ? w.size_limits(0).most : kManyElements;
  const double groups = static_cast<double>(group_count(call));
  range_products(call, call.hull(0), call.hull(1), std::min(channels / groups * most_from(w, 2), kManyElements));
}

// One product at most for each image and position of its output channel.
void range_weight_gradient(RangeCall& call) {
  const AbsTensor& gradient = call.in(0);
  const double images = gradient.ranked && gradient.rank() > 0 ? gradient.size_limits(0).most : kManyElements;
  range_products(call, call.hull(0), call.hull(1), std::min(images * most_from(gradient, 2), kManyElements));
}

// ---- pools -----------------------------------------------------------------

// Adds f(output, plane, taps, give) over all windows, where give(position, share) adds to an element of the plane.
template <class A, class F>
std::vector<A> add_shares(const PoolPlan& plan, const Dims& dims, const F& f) {
  std::vector<A> sums(result_count(dims));
  const std::int64_t size = input_count(plan.axes);
  for_each_window(plan, [&](std::size_t output, std::int64_t plane, std::span<const Taps> taps) {
    const auto give = [&](std::int64_t position, A share) {
      sums[static_cast<std::size_t>(plane * size + position)] += share;
    };
    f(output, plane, taps, give);
  });
  return sums;
}

// The first of the largest elements, as MaxPool chooses it.
void eval_max_pool_gradient(EvalCall& call) {
  const Tensor &gradient = call.in(0), &x = call.in(1);
  const PoolPlan plan = plan_pool(call, x.dims());
  require_dims(gradient, plan.out);
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             const std::vector<A> from = elements<A>(gradient), values = elements<A>(x);
             const auto sums = add_shares<A>(
                 plan, x.dims(),
                 [&](std::size_t output, std::int64_t plane, std::span<const Taps> taps, const auto& give) {
                   const A* const data = values.data() + plane * input_count(plan.axes);
                   std::int64_t best = -1;
                   auto compare = [&](std::int64_t at) {
                     if (best < 0 || data[at] > data[best] || (is_nan(data[at]) && !is_nan(data[best]))) best = at;
                   };
                   visit_window(std::span<const PlacedAxis>(plan.axes), taps, 0, compare);
                   if (best >= 0) give(best, from[output]);
                 });
             return from_elements<A>(x.dtype(), x.dims(), sums);
           }));
}

// What the sum over a window was divided by.
double divisor_of(std::span<const Taps> taps, bool include_pad) {
  double divisor = 1;
  for (const Taps& tap : taps) divisor *= static_cast<double>(include_pad ? tap.counted : tap.count);
  return divisor;
}

template <bool kMean>
void eval_sum_pool_gradient(EvalCall& call) {
  const Tensor &gradient = call.in(0), &like = call.in(1);
  const PoolPlan plan = plan_pool(call, like.dims());
  require_dims(gradient, plan.out);
  const bool include_pad = call.integer("count_include_pad", 0) != 0;
  call.out(0, with_float_sum_type(like.dtype(), [&]<class A>() {
             const std::vector<A> from = elements<A>(gradient);
             const auto sums =
                 add_shares<A>(plan, like.dims(),
                               [&](std::size_t output, std::int64_t, std::span<const Taps> taps, const auto& give) {
                                 const double divisor = kMean ? divisor_of(taps, include_pad) : 1;
                                 if (divisor == 0) return;
                                 const A share = from[output] / static_cast<A>(divisor);
                                 auto add = [&](std::int64_t at) { give(at, share); };
                                 visit_window(std::span<const PlacedAxis>(plan.axes), taps, 0, add);
                               });
             return from_elements<A>(like.dtype(), like.dims(), sums);
           }));
}

// An element lies in at most as many windows as the kernel has positions; shares of means are no larger than they are.
void range_pool_gradient(RangeCall& call) {
  double most = 1;
  for (const std::int64_t size : call.integers("kernel_shape")) most *= static_cast<double>(size);
  const Range gradient = call.hull(0);
  if (gradient.is_empty()) return call.out(0, Range{});
  range_products(call, join(gradient, point(0)), point(1), std::min(most, kManyElements));
}

// Both are linear in either factor, and each is what the other's derivative is made of.
void input_gradient_gradient(BuildCall& call) {
  const ValueId gradient = call.in(0), w = call.in(1);
  if (call.wanted(0)) call.give(0, call.add("Conv", {call.grad(0), w}, call.attrs()));
  if (call.wanted(1)) call.give(1, call.add("finity:ConvWeightGradient", {gradient, call.grad(0), w}, call.attrs()));
}
void weight_gradient_gradient(BuildCall& call) {
  const ValueId gradient = call.in(0), x = call.in(1);
  if (call.wanted(0)) call.give(0, call.add("Conv", {x, call.grad(0)}, call.attrs()));
  if (call.wanted(1)) call.give(1, call.add("finity:ConvInputGradient", {gradient, call.grad(0), x}, call.attrs()));
}

constexpr std::string_view kConvAttrs =
    "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; dilations: "
    "ints; pads: ints; group: int = 1";
constexpr std::string_view kPoolAttrs =
    "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; dilations: "
    "ints; pads: ints; ceil_mode: int = 0; storage_order: int = 0; count_include_pad: int = 0";
constexpr std::string_view kPoolSignature = "(dY: T, like: T) -> (dX: T) where T: float";

const OpDef kOps[] = {
    {.identity =
         {.name = "ConvInputGradient",
          .domain = kDomain,
          .summary =
              "gradient of Conv for its input: the gradients of the outputs times the weights, added where they meet",
          .signature = "(dY: T, W: T, like: T) -> (dX: T) where T: float",
          .attrs = kConvAttrs},
     .meaning = {.infer = infer_like<2>,
                 .eval = eval_input_gradient,
                 .freedom =
                     "products are added in order of the weights, in float32 (float64 for float64), and rounded once"},
     .analysis = {.range = range_input_gradient, .vjp = input_gradient_gradient, .overflow = "FN204"}},
    {.identity = {.name = "ConvWeightGradient",
                  .domain = kDomain,
                  .summary =
                      "gradient of Conv for its weights: sums over all outputs of their gradients times the inputs",
                  .signature = "(dY: T, X: T, like: T) -> (dW: T) where T: float",
                  .attrs = kConvAttrs},
     .meaning = {.infer = infer_like<2>,
                 .eval = eval_weight_gradient,
                 .freedom = "rows are summed pairwise, then added, in float32 (float64 for float64), and rounded once"},
     .analysis = {.range = range_weight_gradient, .vjp = weight_gradient_gradient, .overflow = "FN204"}},
    {.identity = {.name = "MaxPoolGradient",
                  .domain = kDomain,
                  .summary = "gradient of MaxPool: each window's goes to its first largest element",
                  .signature = "(dY: T, X: T) -> (dX: T) where T: float",
                  .attrs = kPoolAttrs},
     .meaning = {.infer = infer_like<1>,
                 .eval = eval_max_pool_gradient,
                 .freedom = "adds in order of the windows; NaN counts as the largest"},
     .analysis = {.range = range_pool_gradient, .vjp = max_pool_second_gradient, .overflow = "FN205"}},
    {.identity = {.name = "AveragePoolGradient",
                  .domain = kDomain,
                  .summary = "gradient of AveragePool: each window's is shared among its elements",
                  .signature = kPoolSignature,
                  .attrs = kPoolAttrs},
     .meaning = {.infer = infer_like<1>,
                 .eval = eval_sum_pool_gradient<true>,
                 .freedom = "adds in order of the windows"},
     .analysis = {.range = range_pool_gradient, .vjp = average_pool_second_gradient, .overflow = "FN205"}},
    {.identity = {.name = "SumPoolGradient",
                  .domain = kDomain,
                  .summary = "the sum, for each element of a tensor, over the windows it lies in",
                  .signature = kPoolSignature,
                  .attrs = kPoolAttrs},
     .meaning = {.infer = infer_like<1>,
                 .eval = eval_sum_pool_gradient<false>,
                 .freedom = "adds in order of the windows"},
     .analysis = {.range = range_pool_gradient, .vjp = sum_pool_second_gradient, .overflow = "FN205"}},
};

}  // namespace

std::span<const OpDef> window_gradient_ops() { return kOps; }

}  // namespace finity
