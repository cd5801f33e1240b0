// Pools over windows and over everything, and the inverse of MaxPool.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear/dot.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "ops/windows/drawn_windows.h"
#include "ops/windows/pool_gradient.h"
#include "ops/windows/pool_range.h"
#include "ops/windows/pool_windows.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void infer_pool(InferCall& call) {
  // The window has one size per spatial axis, which gives the rank where X does not.
  const Shape out = pool_shape(call, call.ranked(0) ? call.shape(0) : Shape(call.integers("kernel_shape").size() + 2));
  for (std::size_t i = 0; i < call.output_count(); ++i) call.set_shape(i, out);
}

void infer_global_pool(InferCall& call) {
  if (call.ranked(0)) call.set_shape(0, global_pool_shape(call.shape(0)));
}

// ---- maximum -----------------------------------------------------------------

// Where the largest element of each window is, -1 for a window without elements. The first of equal ones counts, and
// a NaN is larger than everything.
template <class C>
std::vector<std::int64_t> find_maxima(const PoolPlan& plan, std::span<const C> x) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(element_count(plan.out)), -1);
  const std::int64_t size = input_count(plan.axes);
  for_each_window(plan, [&](std::size_t output, std::int64_t plane, std::span<const Taps> taps) {
    const C* data = x.data() + plane * size;
    std::int64_t best = -1;
    auto compare = [&](std::int64_t position) {
      if (best < 0 || data[position] > data[best] || (data[position] != data[position] && data[best] == data[best])) {
        best = position;
      }
    };
    visit_window(std::span<const PlacedAxis>(plan.axes), taps, 0, compare);
    if (best >= 0) result[output] = plane * size + best;
  });
  return result;
}

std::vector<std::int64_t> maxima_of(const PoolPlan& plan, const Tensor& x) {
  if (x.dtype() == DType::float32) return find_maxima<float>(plan, x.data<float>());
  return with_compute_type(x.dtype(), [&]<class C>() { return find_maxima<C>(plan, elements<C>(x)); });
}

// The maximum of nothing is the smallest value of the dtype.
void fill_empty_windows(Tensor& y, std::span<const std::int64_t> positions) {
  if (std::ranges::find(positions, -1) == positions.end()) return;
  std::vector<double> values = elements<double>(y);
  const double least =
      is_float(y.dtype()) ? -std::numeric_limits<double>::infinity() : static_cast<double>(int_min(y.dtype()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (positions[i] < 0) values[i] = least;
  }
  y = from_elements<double>(y.dtype(), y.dims(), values);
}

// storage_order 1 counts the spatial axes of a channel with the first one fastest.
std::int64_t column_major(const PoolPlan& plan, std::int64_t position) {
  if (position < 0) return position;
  const std::int64_t size = input_count(plan.axes);
  std::int64_t rest = position % size, step = size, result = position - rest;
  for (std::size_t i = plan.axes.size(); i-- > 0;) {
    step /= plan.axes[i].input;
    result += rest % plan.axes[i].input * step;
    rest /= plan.axes[i].input;
  }
  return result;
}

void eval_max(EvalCall& call, const PoolPlan& plan) {
  const Tensor& x = call.in(0);
  std::vector<std::int64_t> positions = maxima_of(plan, x);
  Tensor y = gather_elements(x, plan.out, positions);
  fill_empty_windows(y, positions);
  call.out(0, std::move(y));
  if (!call.has_output(1)) return;
  if (call.integer("storage_order", 0) != 0) {
    for (std::int64_t& position : positions) position = column_major(plan, position);
  }
  call.out(1, Tensor::of<std::int64_t>(DType::int64, plan.out, positions));
}

void eval_max_pool(EvalCall& call) { eval_max(call, plan_pool(call, call.in(0).dims())); }
void eval_global_max_pool(EvalCall& call) { eval_max(call, plan_global_pool(call.in(0).dims())); }

// ---- mean and norm -----------------------------------------------------------

void eval_average(EvalCall& call, const PoolPlan& plan, bool include_pad) {
  const Tensor& x = call.in(0);
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             return from_elements<A>(x.dtype(), plan.out, average_pool<A>(plan, elements<A>(x), include_pad));
           }));
}

void eval_average_pool(EvalCall& call) {
  eval_average(call, plan_pool(call, call.in(0).dims()), call.integer("count_include_pad") != 0);
}
void eval_global_average_pool(EvalCall& call) { eval_average(call, plan_global_pool(call.in(0).dims()), false); }

// (sum of |x|^p)^(1/p) of each window.
template <class A>
std::vector<A> lp_pool(const PoolPlan& plan, std::span<const A> x, double p) {
  std::vector<A> result(static_cast<std::size_t>(element_count(plan.out)));
  std::vector<A> values;
  for_each_window(plan, [&](std::size_t output, std::int64_t plane, std::span<const Taps> taps) {
    collect_window(plan, x, plane, taps, values);
    const A sum = pairwise_sum<A>(static_cast<std::int64_t>(values.size()), [&](std::int64_t i) {
      return static_cast<A>(std::pow(std::abs(static_cast<double>(values[static_cast<std::size_t>(i)])), p));
    });
    result[output] = static_cast<A>(std::pow(static_cast<double>(sum), 1 / p));
  });
  return result;
}

void eval_lp(EvalCall& call, const PoolPlan& plan) {
  const Tensor& x = call.in(0);
  const auto p = pool_exponent(call.attrs());
  if (!p) throw Error("attribute 'p' is not a number");
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             return from_elements<A>(x.dtype(), plan.out, lp_pool<A>(plan, elements<A>(x), *p));
           }));
}

void eval_lp_pool(EvalCall& call) { eval_lp(call, plan_pool(call, call.in(0).dims())); }
void eval_global_lp_pool(EvalCall& call) { eval_lp(call, plan_global_pool(call.in(0).dims())); }

// ---- MaxUnpool ---------------------------------------------------------------

// The size that MaxPool with the same attributes takes to X's size.
Shape unpooled_shape(const Call& call, const Shape& x) {
  if (x.size() < 3) throw Error("input X has rank " + std::to_string(x.size()) + ", expected at least 3");
  const Window window = read_window(call, x.size() - 2);
  Shape out{x[0], x[1]};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const WindowAxis& axis = window.axes[i];
    if (!x[i + 2].known()) {
      out.emplace_back();
      continue;
    }
    std::int64_t size = 0;
    const bool overflow = __builtin_mul_overflow(x[i + 2].size - 1, axis.stride, &size) ||
                          __builtin_add_overflow(size, axis.kernel - axis.pad_begin - axis.pad_end, &size);
    if (overflow || size < 0) throw Error("the unpooled size of axis " + std::to_string(i + 2) + " is out of range");
    out.push_back(Dim::of(size));
  }
  return out;
}

void infer_max_unpool(InferCall& call) {
  if (call.has_input(2)) {
    if (const auto given = call.shape_value(2)) call.set_shape(0, *given);
  } else if (call.ranked(0)) {
    call.set_shape(0, unpooled_shape(call, call.shape(0)));
  }
}

// Where each index, which counts through the inferred size, is in a larger output of the same rank.
std::int64_t moved(std::int64_t index, const Dims& from, const std::vector<std::int64_t>& to_strides) {
  std::int64_t result = 0;
  for (std::size_t i = from.size(); i-- > 0;) {
    result += index % from[i] * to_strides[i];
    index /= from[i];
  }
  return result;
}

void eval_max_unpool(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Shape x_shape = Type::tensor_of(DType::undefined, x.dims()).shape;
  const Dims inferred = Type::tensor(DType::undefined, unpooled_shape(call, x_shape)).dims().value();
  const Dims out = call.has_input(2) ? elements<std::int64_t>(call.in(2)) : inferred;
  bool fits = out.size() == inferred.size();
  for (std::size_t i = 0; fits && i < out.size(); ++i) fits = out[i] >= inferred[i];
  if (!fits) throw Error("output_shape " + to_string(out) + " is smaller than " + to_string(inferred));
  if (call.in(1).dims() != x.dims()) throw Error("inputs X and I differ in shape");
  const std::vector<std::int64_t> indices = elements<std::int64_t>(call.in(1));
  const std::vector<std::int64_t> strides = strides_of(out);
  std::vector<std::int64_t> source(result_count(out), -1);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= element_count(inferred)) {
      throw Error("input I contains " + std::to_string(indices[i]) + ", outside " + to_string(inferred));
    }
    source[static_cast<std::size_t>(moved(indices[i], inferred, strides))] = static_cast<std::int64_t>(i);
  }
  call.out(0, gather_elements(x, out, source));
}

constexpr std::string_view kSumFreedom = "sums pairwise in blocks of 32, in float32 (float64 for float64)";
constexpr std::string_view kMaxFreedom =
    "the first of equal elements counts, NaN counts as the largest; a window without elements gives -Inf (the least "
    "integer), index -1";

const OpDef kOps[] = {
    {.identity = {.name = "MaxPool",
                  .summary = "largest element of each window, and where it is; padding never wins",
                  .signature = "(X: T) -> (Y: T, Indices?: int64) where T: float | int8 | uint8",
                  .attrs = "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; "
                           "strides: ints; dilations: ints since 10; pads: ints; ceil_mode: int = 0 since 10; "
                           "storage_order: int = 0 since 8",
                  .tf = "MaxPool"},
     .meaning = {.infer = infer_pool, .eval = eval_max_pool, .freedom = kMaxFreedom, .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_max_pool,
                  .length = length_max_pool,
                  .vjp = max_pool_gradient,
                  .hazards = window_hazards(),
                  .grants = {.ways = {Way::lowest_for_nothing, Way::passes_over_nan, Way::leaves_out_padding},
                             .measured_on = kOnnxRuntime}},
     .traits = {.exact = true, .rises = true},
     .drawing = {.operands = draw_pool, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "AveragePool",
                  .summary = "mean of each window: its elements divided by how many there are; count_include_pad=1 "
                             "counts the padding, too, but never what ceil_mode adds beyond it",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .attrs = "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; "
                           "strides: ints; dilations: ints since 19; pads: ints; ceil_mode: int = 0 since 10; "
                           "count_include_pad: int = 0 since 7",
                  .tf = "AvgPool"},
     .meaning = {.infer = infer_pool, .eval = eval_average_pool, .freedom = kSumFreedom},
     .analysis = {.range = range_average_pool,
                  .length = length_average_pool,
                  .vjp = average_pool_gradient,
                  .hazards = window_hazards(),
                  .overflow = "FN205"},
     .traits = {.linear = true},
     .drawing = {.operands = draw_pool, .often = 1}},
    {.identity = {.name = "LpPool",
                  .summary = "p-norm of each window",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .attrs = "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; "
                           "strides: ints; dilations: ints since 18; pads: ints; ceil_mode: int = 0 since 18; p: "
                           "value"},
     .meaning = {.infer = infer_pool, .eval = eval_lp_pool, .freedom = kSumFreedom},
     .analysis = {.range = range_lp_pool, .vjp = lp_pool_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_pool}},
    {.identity = {.name = "GlobalMaxPool",
                  .summary = "largest element of each channel",
                  .signature = "(X: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_global_pool,
                 .eval = eval_global_max_pool,
                 .freedom = kMaxFreedom,
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_global_max_pool,
                  .length = length_global_max_pool,
                  .vjp = global_max_pool_gradient,
                  .hazards = reduction_hazards(),
                  .grants = {.ways = {Way::lowest_for_nothing, Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .traits = {.exact = true, .rises = true},
     .drawing = {.first = FirstOperand::image}},
    {.identity = {.name = "GlobalAveragePool",
                  .summary = "mean of each channel",
                  .signature = "(X: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_global_pool,
                 .eval = eval_global_average_pool,
                 .freedom = kSumFreedom,
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_global_average_pool,
                  .length = length_global_average_pool,
                  .vjp = global_average_pool_gradient,
                  .hazards = reduction_hazards(),
                  .overflow = "FN205"},
     .traits = {.linear = true},
     .drawing = {.first = FirstOperand::image, .often = 1}},
    {.identity = {.name = "GlobalLpPool",
                  .summary = "p-norm of each channel",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .attrs = "p: value"},
     .meaning = {.infer = infer_global_pool, .eval = eval_global_lp_pool, .freedom = kSumFreedom},
     .analysis = {.range = range_global_lp_pool, .vjp = global_lp_pool_gradient, .overflow = "FN205"},
     .drawing = {.first = FirstOperand::image}},
    {.identity = {.name = "MaxUnpool",
                  .since = 9,
                  .summary = "puts elements back where MaxPool found them, zeros elsewhere",
                  .signature = "(X: T, I: int64, output_shape?: int64) -> (output: T) where T: float",
                  .attrs = "kernel_shape: ints; strides: ints; pads: ints"},
     .meaning =
         {.infer = infer_max_unpool,
          .eval = eval_max_unpool,
          .freedom =
              "indices count through the size that follows from the attributes, also where output_shape is larger"},
     .analysis = {.range = range_max_unpool, .vjp = max_unpool_gradient},
     .traits = {.exact = true},
     .drawing = {.operands = draw_unpool}},
};

}  // namespace

std::span<const OpDef> pool_ops() { return kOps; }

}  // namespace finity
