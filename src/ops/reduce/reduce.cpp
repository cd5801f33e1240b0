// Reductions over a set of axes. Each one is a struct with
//   apply<A>(dtype, count, get): the result for the elements get(0) ... get(count - 1),
// where A is the type sums are carried in (see accumulate.h).
#include <cmath>
#include <limits>
#include <optional>

#include "ops/reduce/reduce_attrs.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/reduce/reduce_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

struct Sum {
  template <class A, class Get>
  static A apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    return pairwise_sum<A>(count, get);
  }
};

struct Mean {
  template <class A, class Get>
  static A apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    if (std::is_integral_v<A> && count == 0) throw Error("the mean of no integers is undefined");
    return pairwise_sum<A>(count, get) / static_cast<A>(count);
  }
};

struct Product {
  template <class A, class Get>
  static A apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    A product = 1;
    for (std::int64_t i = 0; i < count; ++i) product = wrapping_multiply<A>(product, get(i));
    return product;
  }
};

struct SumOfSquares {
  template <class A, class Get>
  static A apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    return pairwise_sum<A>(count, [&](std::int64_t i) { return wrapping_multiply<A>(get(i), get(i)); });
  }
};

template <class A>
A magnitude(A x) {
  if constexpr (std::is_floating_point_v<A>) return std::fabs(x);
  else if constexpr (std::is_signed_v<A>) return x < 0 ? wrapping_multiply<A>(x, -1) : x;
  else return x;
}

struct L1Norm {
  template <class A, class Get>
  static A apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    return pairwise_sum<A>(count, [&](std::int64_t i) { return magnitude<A>(get(i)); });
  }
};

struct L2Norm {
  template <class A, class Get>
  static double apply(DType dtype, std::int64_t count, const Get& get) {
    return std::sqrt(static_cast<double>(SumOfSquares::apply<A>(dtype, count, get)));
  }
};

template <class A>
void require_infinity(std::int64_t count) {
  if (std::is_integral_v<A> && count == 0) throw Error("the logarithm of an empty integer sum is undefined");
}

struct LogOfSum {
  template <class A, class Get>
  static double apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    require_infinity<A>(count);
    return std::log(static_cast<double>(pairwise_sum<A>(count, get)));
  }
};

// Shifted by the largest element, so that exp overflows only where the result does.
struct LogOfSumOfExp {
  template <class A, class Get>
  static double apply(DType /*dtype*/, std::int64_t count, const Get& get) {
    require_infinity<A>(count);
    double shift = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < count; ++i) shift = std::fmax(shift, static_cast<double>(get(i)));
    if (!std::isfinite(shift)) shift = 0;
    const auto term = [&](std::int64_t i) { return std::exp(static_cast<double>(get(i)) - shift); };
    return shift + std::log(pairwise_sum<double>(count, term));
  }
};

// A NaN among the elements is the result; of equal elements (-0 and 0) the first.
template <class A, class Get, class Before>
A extreme(A identity, std::int64_t count, const Get& get, Before before) {
  if (count == 0) return identity;
  A best = get(0);
  for (std::int64_t i = 1; i < count; ++i) {
    const A x = get(i);
    if (is_nan(best)) break;
    if (before(x, best) || is_nan(x)) best = x;
  }
  return best;
}

struct Largest {
  template <class A, class Get>
  static A apply(DType dtype, std::int64_t count, const Get& get) {
    A identity{};
    if constexpr (std::is_floating_point_v<A>) identity = -std::numeric_limits<A>::infinity();
    else identity = static_cast<A>(int_min(dtype));
    return extreme<A>(identity, count, get, [](A a, A b) { return a > b; });
  }
};

struct Smallest {
  template <class A, class Get>
  static A apply(DType dtype, std::int64_t count, const Get& get) {
    A identity{};
    if constexpr (std::is_floating_point_v<A>) identity = std::numeric_limits<A>::infinity();
    else identity = static_cast<A>(int_max(dtype));
    return extreme<A>(identity, count, get, [](A a, A b) { return a < b; });
  }
};

template <class R>
void eval_reduce(EvalCall& call) {
  const Tensor& data = call.in(0);
  std::optional<std::vector<std::int64_t>> axes;
  if (call.has_input(1)) axes = elements<std::int64_t>(call.in(1));
  const ReduceAttrs attrs = read_reduce(call, axes).value();
  const AxisSet reduced = attrs.reduced(data.rank());
  const Groups groups = group_elements(data.dims(), reduced);
  const Dims dims = reduced_sizes<std::int64_t>(data.dims(), reduced, attrs.keep, 1);
  Tensor result = with_sum_type(data.dtype(), [&]<class A>() {
    const std::vector<A> values = elements<A>(data);
    const auto reduce_group = [&](std::size_t group) {
      const auto get = [&](std::int64_t i) { return values[groups.at(group, i)]; };
      return R::template apply<A>(data.dtype(), groups.length(), get);
    };
    std::vector<decltype(reduce_group(0))> reductions(groups.starts.size());
    for (std::size_t group = 0; group < reductions.size(); ++group) reductions[group] = reduce_group(group);
    return from_elements(data.dtype(), dims, reductions);
  });
  call.out(0, std::move(result));
}

std::optional<ReduceAttrs> known_reduction(const InferCall& call) {
  require_rank(call, 1, 1);
  if (call.ranked(1) && call.shape(1)[0].size == 0) return read_reduce(call, std::vector<std::int64_t>());
  return read_reduce(call, call.ints(1));
}

// Which axes are reduced is not known: with keepdims a size stays or becomes 1, else the rank drops by their number.
void infer_unknown_axes(InferCall& call) {
  const bool keep = call.integer("keepdims") != 0;
  const bool single = call.ranked(1) && call.shape(1)[0].size == 1;
  if (keep) {
    Shape shape(call.rank(0));
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (call.shape(0)[axis].size == 1) shape[axis] = Dim::of(1);
    }
    call.set_shape(0, std::move(shape));
  } else if (single && call.rank(0) > 0) {
    call.set_shape(0, Shape(call.rank(0) - 1));
  }
}

void infer_reduce(InferCall& call) {
  const auto attrs = known_reduction(call);
  if (!call.ranked(0)) return;
  if (!attrs) return infer_unknown_axes(call);
  call.set_shape(0, reduced_sizes(call.shape(0), attrs->reduced(call.rank(0)), attrs->keep, Dim::of(1)));
}

// The product of a shape is how exporters count elements.
void infer_product(InferCall& call) {
  infer_reduce(call);
  const auto attrs = known_reduction(call);
  if (!call.ranked(0) || call.rank(0) != 1 || !attrs || !attrs->reduced(1)[0]) return;
  if (const auto sizes = call.shape_value(0)) call.set_shape_value(0, {product(*sizes)});
}

constexpr std::string_view kReduceSum =
    "(data: T, axes?: int64 since 13) -> (reduced: T) where T: float | int32 | int64 | uint32 | uint64";
constexpr std::string_view kReduce =
    "(data: T, axes?: int64 since 18) -> (reduced: T) where T: float | int32 | int64 | uint32 | uint64";
constexpr std::string_view kReduceOrdered =
    "(data: T, axes?: int64 since 18) -> (reduced: T) where T: float | int32 | int64 | uint32 | uint64 | int8 | uint8 "
    "| bool";
constexpr std::string_view kSumAttrs = "axes: ints until 12; keepdims: int = 1; noop_with_empty_axes: int = 0 since 13";
constexpr std::string_view kAttrs = "axes: ints until 17; keepdims: int = 1; noop_with_empty_axes: int = 0 since 18";
constexpr std::string_view kSumFreedom =
    "sums pairwise in blocks of 32, carried in float32 (float64 for float64, wrapping 64 bits for integers), "
    "and rounds once";

// ---- drawing ---------------------------------------------------------------

// Axes as an operand, perhaps none.
bool draw_axes(DrawCall& call) {
  if (call.chance(75)) call.add_ints(call.chance(15) ? DrawCall::Ints() : call.some_axes());
  return true;
}

// ReduceSum has them as an operand since opset 13, the others since 18.
bool draw_sum_axes(DrawCall& call) { return call.opset() >= 13 && draw_axes(call); }
bool draw_reduce_axes(DrawCall& call) { return call.opset() >= 18 && draw_axes(call); }

// A logarithm or a root as an integer has no meaning.
bool float_means(DType dtype, int /*opset*/) { return is_float(dtype); }

const OpDef kOps[] = {
    {.identity = {.name = "ReduceSum",
                  .summary = "sum over axes; 0 for no elements",
                  .signature = kReduceSum,
                  .attrs = kSumAttrs,
                  .tf = "Sum"},
     .meaning =
         {.infer = infer_reduce, .eval = eval_reduce<Sum>, .freedom = kSumFreedom, .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_sum, .vjp = reduce_sum_gradient, .overflow = "FN205"},
     .traits = {.linear = true, .light = true},
     .drawing = {.operands = draw_sum_axes, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "ReduceMean",
                  .summary = "mean over axes; NaN for no elements, an error for no integers",
                  .signature = kReduce,
                  .attrs = kAttrs,
                  .tf = "Mean"},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<Mean>,
                 .freedom = "sums pairwise as ReduceSum, then divides; integers divide towards zero",
                 .not_finite = NotFinite::said},
     .analysis =
         {.range = range_reduce_mean, .vjp = reduce_mean_gradient, .hazards = reduction_hazards(), .overflow = "FN205"},
     .traits = {.linear = true, .light = true},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "ReduceProd",
                  .summary = "product over axes; 1 for no elements",
                  .signature = kReduce,
                  .attrs = kAttrs,
                  .tf = "Prod"},
     .meaning =
         {.infer = infer_product,
          .eval = eval_reduce<Product>,
          .freedom =
              "multiplies from first to last, carried in float32 (float64 for float64, wrapping 64 bits for integers)",
          .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_product, .vjp = reduce_product_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given}},
    {.identity =
         {.name = "ReduceSumSquare",
          .summary =
              "sum of squares over axes; 0 for no elements; without axes and with noop_with_empty_axes=1, each square",
          .signature = kReduce,
          .attrs = kAttrs},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<SumOfSquares>,
                 .freedom = kSumFreedom,
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_sum_square, .vjp = reduce_sum_square_gradient, .overflow = "FN205"},
     .traits = {.light = true},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given}},
    {.identity = {.name = "ReduceL1",
                  .summary = "sum of absolute values over axes; 0 for no elements",
                  .signature = kReduce,
                  .attrs = kAttrs},
     .meaning =
         {.infer = infer_reduce, .eval = eval_reduce<L1Norm>, .freedom = kSumFreedom, .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_l1, .vjp = reduce_l1_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given}},
    {.identity = {.name = "ReduceL2",
                  .summary = "square root of the sum of squares over axes; 0 for no elements",
                  .signature = kReduce,
                  .attrs = kAttrs,
                  .tf = "EuclideanNorm"},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<L2Norm>,
                 .freedom = "sums as ReduceSumSquare, the root is taken before rounding to the dtype",
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_l2, .vjp = reduce_l2_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_reduce_axes, .means = float_means, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "ReduceLogSum",
                  .summary = "logarithm of the sum over axes; -inf for no elements",
                  .signature = kReduce,
                  .attrs = kAttrs},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<LogOfSum>,
                 .freedom = "sums as ReduceSum, the logarithm is taken before rounding to the dtype",
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_log_sum,
                  .vjp = reduce_log_sum_gradient,
                  .hazards = log_sum_hazards(),
                  .overflow = "FN205"},
     .drawing = {.operands = draw_reduce_axes, .means = float_means, .ends = Ends::given}},
    {.identity = {.name = "ReduceLogSumExp",
                  .summary = "logarithm of the sum of exponentials over axes; -inf for no elements",
                  .signature = kReduce,
                  .attrs = kAttrs},
     .meaning =
         {.infer = infer_reduce,
          .eval = eval_reduce<LogOfSumOfExp>,
          .freedom =
              "shifts by the largest element and computes in float64, so it overflows only where the result does",
          .not_finite = NotFinite::said},
     .analysis = {.range = range_reduce_log_sum_exp,
                  .vjp = reduce_log_sum_exp_gradient,
                  .hazards = log_sum_exp_hazards(),
                  .overflow = "FN205",
                  .grants = {.ways = {Way::starts_from_zero, Way::no_shift}, .measured_on = kOnnxRuntime}},
     .traits = {.light = true},
     .drawing = {.operands = draw_reduce_axes, .means = float_means, .ends = Ends::given}},
    {.identity = {.name = "ReduceMax",
                  .summary = "largest element over axes; -inf or the dtype's smallest value for no elements",
                  .signature = kReduceOrdered,
                  .attrs = kAttrs,
                  .tf = "Max"},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<Largest>,
                 .freedom = "a NaN among the elements is the result; of -0 and 0 the first",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_reduce_max,
                  .vjp = reduce_extreme_gradient,
                  .hazards = reduction_hazards(),
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .traits = {.exact = true, .rises = true, .light = true},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "ReduceMin",
                  .summary = "smallest element over axes; inf or the dtype's largest value for no elements",
                  .signature = kReduceOrdered,
                  .attrs = kAttrs,
                  .tf = "Min"},
     .meaning = {.infer = infer_reduce,
                 .eval = eval_reduce<Smallest>,
                 .freedom = "a NaN among the elements is the result; of -0 and 0 the first",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_reduce_min,
                  .vjp = reduce_extreme_gradient,
                  .hazards = reduction_hazards(),
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .traits = {.exact = true, .rises = true, .light = true},
     .drawing = {.operands = draw_reduce_axes, .ends = Ends::given}},
};

}  // namespace

std::span<const OpDef> reduce_ops() { return kOps; }

}  // namespace finity
