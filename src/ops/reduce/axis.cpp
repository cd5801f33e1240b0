// Ops that walk along one axis: positions of extremes, the k best elements, running sums and products.
#include <algorithm>
#include <numeric>

#include "ops/elementwise/elementwise.h"
#include "ops/movement/movement_rules.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shape_values.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// NaN ranks above every number, as in numpy's sort and in PyTorch.
template <class C>
bool ranks_above(C a, C b) {
  return a > b || (is_nan(a) && !is_nan(b));
}

// ---- ArgMax, ArgMin --------------------------------------------------------

// A NaN is the extreme for both: passing over it would hide a bug.
struct ByLargest {
  template <class C>
  static bool beats(C a, C b) {
    return ranks_above(a, b);
  }
};
struct BySmallest {
  template <class C>
  static bool beats(C a, C b) {
    return a < b || (is_nan(a) && !is_nan(b));
  }
};

template <class Order, class C>
std::vector<std::int64_t> arg_extremes(const std::vector<C>& values, const AxisView& view, bool last) {
  std::vector<std::int64_t> result;
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < view.inner; ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < view.length; ++k) {
        const C candidate = values[view.at(o, k, i)];
        const C leader = values[view.at(o, best, i)];
        if (Order::beats(candidate, leader) || (last && !Order::beats(leader, candidate))) best = k;
      }
      result.push_back(best);
    }
  }
  return result;
}

// Sizes with the axis gone, or 1; D is Dim or std::int64_t.
template <class D>
std::vector<D> without_axis(std::vector<D> sizes, std::size_t axis, bool keep, const D& one) {
  if (keep) sizes[axis] = one;
  else sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  return sizes;
}

template <class Order>
void eval_arg(EvalCall& call) {
  const Tensor& data = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), data.rank());
  Dims dims = without_axis<std::int64_t>(data.dims(), axis, call.integer("keepdims") != 0, 1);
  if (element_count(dims) == 0) {
    call.out(0, Tensor(DType::int64, std::move(dims)));
    return;
  }
  if (data.empty()) throw Error("axis " + std::to_string(axis) + " of " + to_string(data.dims()) + " has no elements");
  const AxisView view(data.dims(), axis);
  const bool last = call.integer("select_last_index") != 0;
  const auto best =
      with_compute_type(data.dtype(), [&]<class C>() { return arg_extremes<Order, C>(elements<C>(data), view, last); });
  call.out(0, from_elements<std::int64_t>(DType::int64, std::move(dims), best));
}

void infer_arg(InferCall& call) {
  if (!call.ranked(0)) return;
  const std::size_t axis = normalize_axis(call.integer("axis"), call.rank(0));
  call.set_shape(0, without_axis(call.shape(0), axis, call.integer("keepdims") != 0, Dim::of(1)));
}

void range_arg(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (x.ranked) call.out(0, positions_along(x, normalize_axis(call.integer("axis"), x.rank())));
  else call.out(0, positions_below(x.most_count(~std::uint32_t{0})));
}

// ---- TopK ------------------------------------------------------------------

// Positions of the k best along the axis, best first, equal ones in order of position; laid out as the output.
template <class C>
std::vector<std::int64_t> top_indices(const std::vector<C>& values, const AxisView& view, std::int64_t k,
                                      bool largest) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(view.outer * k * view.inner));
  std::vector<std::int64_t> order(static_cast<std::size_t>(view.length));
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < view.inner; ++i) {
      const auto before = [&](std::int64_t a, std::int64_t b) {
        const C x = values[view.at(o, a, i)];
        const C y = values[view.at(o, b, i)];
        if (ranks_above(x, y)) return largest;
        if (ranks_above(y, x)) return !largest;
        return a < b;
      };
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
      for (std::int64_t j = 0; j < k; ++j) {
        result[static_cast<std::size_t>((o * k + j) * view.inner + i)] = order[static_cast<std::size_t>(j)];
      }
    }
  }
  return result;
}

void check_k(std::int64_t k, std::int64_t length) {
  if (k < 0 || k > length) {
    throw Error("K is " + std::to_string(k) + ", the axis has " + std::to_string(length) + " elements");
  }
}

std::int64_t k_of(const EvalCall& call) {
  if (!call.has_input(1)) return call.integer("k");
  if (call.in(1).size() != 1) throw Error("K has shape " + to_string(call.in(1).dims()) + ", expected one element");
  return element_as_int(call.in(1), 0);
}

void eval_top_k(EvalCall& call) {
  const Tensor& x = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  const std::int64_t k = k_of(call);
  check_k(k, x.dim(axis));
  Dims dims = x.dims();
  dims[axis] = k;
  if (element_count(dims) == 0) {
    call.out(0, Tensor(x.dtype(), dims));
    call.out(1, Tensor(DType::int64, dims));
    return;
  }
  const AxisView view(x.dims(), axis);
  const bool largest = call.integer("largest") != 0;
  const auto indices =
      with_compute_type(x.dtype(), [&]<class C>() { return top_indices<C>(elements<C>(x), view, k, largest); });
  std::vector<std::int64_t> positions(indices.size());
  const AxisView out_view(dims, axis);
  for (std::size_t at = 0; at < positions.size(); ++at) {
    const auto inner = static_cast<std::int64_t>(at) % view.inner;
    const auto outer = static_cast<std::int64_t>(at) / (out_view.length * view.inner);
    positions[at] = static_cast<std::int64_t>(view.at(outer, indices[at], inner));
  }
  call.out(0, gather_elements(x, dims, positions));
  call.out(1, from_elements<std::int64_t>(DType::int64, dims, indices));
}

// The size of the result along the axis, perhaps symbolic.
Dim inferred_k(const InferCall& call, const Dim& length) {
  Dim k;
  if (!call.has_input(1)) k.size = call.integer("k");
  else if (const auto value = call.ints(1); value && value->size() == 1) k.size = value->front();
  else if (const auto size = call.shape_value(1); size && size->size() == 1) {
    k = size->front();
    k.most = std::min(k.most, length.most_size());
    return k;
  } else {
    return some_of(length);
  }
  check_k(k.size, length.known() ? length.size : k.size);
  return k;
}

void infer_top_k(InferCall& call) {
  if (!call.ranked(0)) return;
  const std::size_t axis = normalize_axis(call.integer("axis"), call.rank(0));
  Shape shape = call.shape(0);
  shape[axis] = inferred_k(call, shape[axis]);
  call.set_shape(0, shape);
  call.set_shape(1, std::move(shape));
}

// The largest element of a row is among its k largest.
void keep_row_max(RangeCall& call, std::size_t axis) {
  if (!call.has_output(0)) return;
  for (const RowBound& rows : each<RowBound>(call.in(0).relations)) {
    if (rows.of == Of::largest && rows.axes == AxisBits{1} << axis) call.outs()[0].relations.push_back(rows);
  }
}

// The values are elements of the axis; the single largest one is its maximum.
void range_top_k(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked) {
    call.out(0, x.hull());
    if (call.has_output(1)) call.out(1, positions_below(x.most_count(~std::uint32_t{0})));
    return;
  }
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  const Type& type = call.out_type(0);
  const std::int64_t k = type.ranked && type.shape.size() == x.rank() ? type.shape[axis].size : -1;
  AbsTensor values = selected(x, axis, k, "", call.symbols());
  const bool finite = !x.hull().nan && is_float(x.dtype);
  if (k == 1 && call.integer("largest") != 0 && finite && axis < 32) {
    values.relations.push_back(AggregateBound{.source = {x.identity, AxisBits{1} << axis}, .of = Of::largest});
  }
  settle(call, 0, std::move(values));
  if (k >= 1 && call.integer("largest") != 0 && finite && axis < 32) keep_row_max(call, axis);
  if (call.has_output(1)) call.out(1, positions_along(x, axis));
}

// ---- CumSum, CumProd -------------------------------------------------------

struct Plus {
  static constexpr int kIdentity = 0;
  template <class A>
  static A apply(A a, A b) {
    return wrapping_add<A>(a, b);
  }
};
struct Times {
  static constexpr int kIdentity = 1;
  template <class A>
  static A apply(A a, A b) {
    return wrapping_multiply<A>(a, b);
  }
};

template <class Op, class A>
std::vector<A> running(const std::vector<A>& values, const AxisView& view, bool exclusive, bool reverse) {
  std::vector<A> result(values.size());
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < view.inner; ++i) {
      A total = Op::kIdentity;
      for (std::int64_t step = 0; step < view.length; ++step) {
        const std::size_t at = view.at(o, reverse ? view.length - 1 - step : step, i);
        // The first element is taken as it is: 0 + -0 would lose its sign.
        const A next = step == 0 ? values[at] : Op::template apply<A>(total, values[at]);
        result[at] = exclusive ? total : next;
        total = next;
      }
    }
  }
  return result;
}

template <class Op>
void eval_running(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (call.in(1).size() != 1) throw Error("axis has shape " + to_string(call.in(1).dims()) + ", expected a scalar");
  const std::size_t axis = normalize_axis(element_as_int(call.in(1), 0), x.rank());
  if (x.empty()) {
    call.out(0, x);
    return;
  }
  const AxisView view(x.dims(), axis);
  const bool exclusive = call.integer("exclusive") != 0;
  const bool reverse = call.integer("reverse") != 0;
  Tensor y = with_sum_type(x.dtype(), [&]<class A>() {
    return from_elements(x.dtype(), x.dims(), running<Op, A>(elements<A>(x), view, exclusive, reverse));
  });
  call.out(0, std::move(y));
}

void infer_running(InferCall& call) {
  infer_same_shape(call);
  const auto axis = call.ints(1);
  if (call.ranked(0) && axis && axis->size() == 1) normalize_axis(axis->front(), call.rank(0));
}

// Each result is the sum of 1 to n elements (or 0 to n - 1), in any order of adding.
Range running_sum(const RangeCall& call, const Range& each, double least, double most) {
  if (each.is_point() && each.lo == 0) return each;
  Range result;
  for (const DType accumulator : call.accumulators(call.out_dtype(0))) {
    result = join(result, sum_of(call.out_dtype(0), accumulator, each, least, most));
  }
  return result;
}

// Factors of size at most 1 never make a product larger; others are multiplied out while there are few.
Range running_product(const RangeCall& call, const Range& each, double least, double most) {
  constexpr double kFew = 64;
  const DType dtype = call.out_dtype(0);
  if (each.is_empty()) return least < 1 ? point(1) : Range{};
  if (each.has_finite() && each.magnitude() <= 1 && !each.pinf && !each.ninf) {
    Range result = from_bounds(dtype, each.lo < 0 ? -1 : 0, least < 1 || each.lo < 0 ? 1 : each.hi);
    result.nan = each.nan;
    return join(result, least < 1 ? point(1) : each);
  }
  if (!(most <= kFew)) return top(dtype);
  Range result;
  for (const DType accumulator : call.accumulators(dtype)) {
    Range product = point(1);
    for (int factors = 0; factors <= static_cast<int>(most); ++factors) {
      if (factors > 0) product = factors == 1 ? each : multiply(accumulator, product, each);
      if (factors < least) continue;
      Range rounded = from_bounds(dtype, product.lo, product.hi);
      rounded.nan |= product.nan;
      rounded.pinf |= product.pinf;
      rounded.ninf |= product.ninf;
      result = join(result, rounded);
    }
  }
  return result;
}

template <Range (*Running)(const RangeCall&, const Range&, double, double)>
void range_running(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto axis = call.ints(1);
  const bool exclusive = call.integer("exclusive") != 0;
  const bool known = x.ranked && axis && axis->size() == 1;
  const std::size_t at = known ? normalize_axis(axis->front(), x.rank()) : 0;
  const std::int64_t size = known ? size_along(x, at) : -1;
  const double most = known ? x.size_limits(at).most : x.most_count(~std::uint32_t{0});
  const auto run = [&](const Range& cell) {
    return Running(call, cell, exclusive ? 0 : 1, exclusive ? std::max(most - 1, 0.0) : most);
  };
  if (!known) return call.out(0, run(x.hull()));
  settle(call, 0, map_cells(selected(x, at, size, "", call.symbols()), x.dtype, run));
}

constexpr std::string_view kArg = "(data: T) -> (reduced: int64) where T: number";
constexpr std::string_view kArgAttrs = "axis: int = 0; keepdims: int = 1; select_last_index: int = 0 since 12";
constexpr std::string_view kArgFreedom = "a NaN counts as the extreme: the first one (or last one) is chosen";
constexpr std::string_view kRunning =
    "(x: T, axis: A) -> (y: T) where T: float | int32 | int64 | uint32 | uint64, A: int32 | int64";
constexpr std::string_view kRunningAttrs = "exclusive: int = 0; reverse: int = 0";

// ---- drawing ---------------------------------------------------------------

bool draw_top_k(DrawCall& call) {
  if (call.opset() < 10) return false;
  const std::int64_t length = call.rank() == 0 ? 1 : std::max<std::int64_t>(call.length(call.axis("axis", -1)), 1);
  call.add_ints({call.between(1, length)});
  return true;
}

bool draw_running(DrawCall& call) {
  const std::int64_t rank = std::max<std::int64_t>(call.rank(), 1);
  call.add(Tensor::scalar(call.between(-rank, rank - 1)), 90);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "ArgMax",
                  .summary = "position of the largest element along an axis",
                  .signature = kArg,
                  .attrs = kArgAttrs,
                  .tf = "ArgMax"},
     .meaning =
         {.infer = infer_arg, .eval = eval_arg<ByLargest>, .freedom = kArgFreedom, .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_arg, .vjp = flat},
     .traits = {.exact = true},
     .drawing = {.ends = Ends::given, .often = 1}},
    {.identity = {.name = "ArgMin",
                  .summary = "position of the smallest element along an axis",
                  .signature = kArg,
                  .attrs = kArgAttrs,
                  .tf = "ArgMin"},
     .meaning =
         {.infer = infer_arg, .eval = eval_arg<BySmallest>, .freedom = kArgFreedom, .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_arg, .vjp = flat},
     .traits = {.exact = true},
     .drawing = {.ends = Ends::given}},
    {.identity = {.name = "TopK",
                  .summary = "the k largest or smallest elements along an axis, and their positions",
                  .signature = "(X: T, K?: int64 since 10) -> (Values: T, Indices: int64) where T: number",
                  .attrs = "axis: int = -1; k: int until 9; largest: int = 1 since 11; sorted: int = 1 since 11",
                  .tf = "TopKV2"},
     .meaning = {.infer = infer_top_k,
                 .eval = eval_top_k,
                 .freedom = "always sorted; NaN ranks above every number",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_top_k, .vjp = top_k_gradient},
     .traits = {.exact = true},
     .drawing = {.operands = draw_top_k, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "CumSum",
                  .since = 11,
                  .summary = "running sum along an axis",
                  .signature = kRunning,
                  .attrs = kRunningAttrs,
                  .tf = "Cumsum"},
     .meaning =
         {.infer = infer_running,
          .eval = eval_running<Plus>,
          .freedom =
              "adds in order, carried in float32 (float64 for float64, wrapping 64 bits for integers); each output is "
              "rounded, the carried sum is not",
          .not_finite = NotFinite::said},
     .analysis = {.range = range_running<running_sum>, .vjp = running_sum_gradient, .overflow = "FN205"},
     .traits = {.linear = true},
     .drawing = {.operands = draw_running, .ends = Ends::given, .often = 1}},
    {.identity = {.name = "CumProd",
                  .since = 26,
                  .summary = "running product along an axis",
                  .signature = kRunning,
                  .attrs = kRunningAttrs,
                  .tf = "Cumprod"},
     .meaning =
         {.infer = infer_running,
          .eval = eval_running<Times>,
          .freedom =
              "multiplies in order, carried in float32 (float64 for float64, wrapping 64 bits for integers); each "
              "output is rounded, the carried product is not"},
     .analysis = {.range = range_running<running_product>, .vjp = running_product_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_running}},
};

}  // namespace

std::span<const OpDef> axis_ops() { return kOps; }

}  // namespace finity
