// Reductions, softmax and what else walks along axes.
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/reduce/reduce_attrs.h"
#include "ops/reduce/softmax_attrs.h"
#include "torch/lowering.h"

namespace finity {

namespace {

// What to reduce: x with the axes, perhaps an axis of size 1 of its own when there is nothing to reduce.
struct Reduction {
  at::Tensor x;
  std::vector<std::int64_t> axes;
  bool keep = true;

  std::int64_t count() const {
    std::int64_t result = 1;
    for (const std::int64_t axis : axes) result *= x.size(axis);
    return result;
  }
};

Reduction reduction_of(const TorchCall& call) {
  const auto attrs = read_reduce(call, call.has(1) ? std::optional(call.ints(1)) : std::nullopt).value();
  Reduction result{call.in(0), {}, attrs.keep};
  const std::int64_t rank = result.x.dim();
  const AxisSet reduced = attrs.reduced(static_cast<std::size_t>(rank));
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (reduced[static_cast<std::size_t>(axis)]) result.axes.push_back(axis);
  }
  if (!result.axes.empty()) return result;
  // LibTorch takes no axes for all of them.
  return {result.x.unsqueeze(-1), {rank}, false};
}

at::Tensor sum_of(const Reduction& r, const at::Tensor& x) { return at::sum(x, r.axes, r.keep); }

at::Tensor mean_of(const Reduction& r) {
  if (!is_integral(r.x)) return at::div(sum_of(r, r.x), static_cast<double>(r.count()));
  if (r.count() == 0) throw Error("the mean of no integers is undefined");
  return at::div(sum_of(r, r.x), scalar_of(r.count(), at::kLong), "trunc");
}

at::Tensor product_of(const Reduction& r) {
  at::Tensor result = r.x;
  for (auto axis = r.axes.rbegin(); axis != r.axes.rend(); ++axis) result = at::prod(result, *axis, r.keep);
  return result;
}

at::Tensor sum_of_squares(const Reduction& r) { return sum_of(r, at::mul(r.x, r.x)); }
at::Tensor sum_of_elements(const Reduction& r) { return sum_of(r, r.x); }
at::Tensor sum_of_magnitudes(const Reduction& r) { return sum_of(r, at::abs(r.x)); }
at::Tensor length_of(const Reduction& r) { return at::sqrt(as_float(sum_of_squares(r))); }

void require_infinity(const Reduction& r) {
  if (is_integral(r.x) && r.count() == 0) throw Error("the logarithm of an empty integer sum is undefined");
}

at::Tensor log_of_sum(const Reduction& r) {
  require_infinity(r);
  return at::log(as_float(sum_of(r, r.x)));
}
at::Tensor log_of_sum_of_exp(const Reduction& r) {
  require_infinity(r);
  return at::logsumexp(as_float(r.x), r.axes, r.keep);
}

// The smallest (largest) number of the dtype, which is what the maximum (minimum) of nothing is.
at::Tensor extreme_of_nothing(const TorchCall& call, const Reduction& r, bool largest) {
  const DType dtype = call.dtype(0);
  const at::Tensor shape = at::sum(r.x.to(at::kDouble), r.axes, r.keep);
  if (is_float(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return at::full_like(shape, largest ? -infinity : infinity);
  }
  if (dtype == DType::boolean) return at::full_like(shape, largest ? 0 : 1);
  const auto highest = static_cast<std::int64_t>(int_max(dtype));
  return at::full_like(shape, largest ? int_min(dtype) : highest, at::TensorOptions(at::kLong));
}

template <bool kLargest>
void lower_extreme(TorchCall& call) {
  const Reduction r = reduction_of(call);
  if (r.count() == 0) return call.out(0, extreme_of_nothing(call, r, kLargest));
  const at::Tensor x = r.x.scalar_type() == at::kBool ? r.x.to(at::kByte) : r.x;
  call.out(0, kLargest ? at::amax(x, r.axes, r.keep) : at::amin(x, r.axes, r.keep));
}

template <at::Tensor (*F)(const Reduction&)>
void reduced(TorchCall& call) {
  call.out(0, F(reduction_of(call)));
}

// ---- along one axis -----------------------------------------------------------

// For the smallest as for the largest, NaN counts as the extreme.
template <bool kLargest>
void lower_arg(TorchCall& call) {
  at::Tensor x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  const bool keep = call.integer("keepdims") != 0;
  if (x.size(axis) == 0 && x.numel() == 0) return call.put(0, to_value(call.reference().front()));
  const bool last = call.integer("select_last_index") != 0;
  if (last) x = at::flip(x, {axis});
  at::Tensor index = kLargest ? at::argmax(x, axis, keep) : at::argmin(x, axis, keep);
  if (last) index = at::sub(at::full_like(index, x.size(axis) - 1), index);
  call.out(0, index);
}

void lower_top_k(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  const std::int64_t k = call.has(1) ? call.in(1).item<std::int64_t>() : call.integer("k");
  if (k < 0 || k > x.size(axis)) throw Error("K is " + std::to_string(k) + ", the axis has fewer elements");
  // Not at::topk, which does not say which of equal elements it takes.
  const auto [values, indices] =
      at::sort(x, c10::optional<bool>(true), axis, /*descending=*/call.integer("largest") != 0);
  call.out(0, values.narrow(axis, 0, k));
  call.out(1, indices.narrow(axis, 0, k));
}

template <bool kProducts>
void lower_running(TorchCall& call) {
  at::Tensor x = call.in(0);
  const std::int64_t axis = axis_of(call.in(1).item<std::int64_t>(), x.dim());
  const bool reverse = call.integer("reverse") != 0;
  if (reverse) x = at::flip(x, {axis});
  at::Tensor result = kProducts ? at::cumprod(x, axis) : at::cumsum(x, axis);
  if (call.integer("exclusive") != 0 && x.size(axis) > 0) {
    const at::Tensor first = at::full_like(result.narrow(axis, 0, 1), kProducts ? 1 : 0);
    result = at::cat({first, result.narrow(axis, 0, x.size(axis) - 1)}, axis);
  }
  call.out(0, reverse ? at::flip(result, {axis}) : result);
}

// Where all axes from one on are a row, f works on the last axis of a matrix.
template <at::Tensor (*F)(const at::Tensor&, std::int64_t)>
void by_rows(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const SoftmaxAttrs attrs = read_softmax(call);
  const std::int64_t axis = axis_of(attrs.axis, x.dim());
  if (x.numel() == 0) return call.out(0, x);
  if (!attrs.flat) return call.out(0, F(x, axis));
  const std::int64_t rows = c10::multiply_integers(x.sizes().slice(0, static_cast<std::size_t>(axis)));
  call.out(0, F(x.reshape({rows, x.numel() / rows}), 1).reshape(x.sizes()));
}

at::Tensor soft_max(const at::Tensor& x, std::int64_t axis) { return at::softmax(x, axis); }
at::Tensor log_soft_max(const at::Tensor& x, std::int64_t axis) { return at::log_softmax(x, axis); }
at::Tensor hard_max(const at::Tensor& x, std::int64_t axis) {
  return at::zeros_like(x).scatter(axis, at::argmax(x, axis, true), 1.0);
}

void lower_scale(TorchCall& call) {
  const at::Tensor factor = call.in(1).to(call.in(0).scalar_type()).reshape({});
  call.out(0, call.integer("scale_down") != 0 ? at::div(call.in(0), factor) : at::mul(call.in(0), factor));
}

constexpr TorchLowering kEntries[] = {
    {"ReduceSum", "", reduced<sum_of_elements>},
    {"ReduceMean", "", reduced<mean_of>},
    {"ReduceProd", "", reduced<product_of>},
    {"ReduceSumSquare", "", reduced<sum_of_squares>},
    {"ReduceL1", "", reduced<sum_of_magnitudes>},
    {"ReduceL2", "", reduced<length_of>},
    {"ReduceLogSum", "", reduced<log_of_sum>},
    {"ReduceLogSumExp", "", reduced<log_of_sum_of_exp>},
    {"ReduceMax", "", lower_extreme<true>},
    {"ReduceMin", "", lower_extreme<false>},
    {"ReduceSumInteger", "com.microsoft", reduced<sum_of_elements>},
    {"ArgMax", "", lower_arg<true>},
    {"ArgMin", "", lower_arg<false>},
    {"TopK", "", lower_top_k},
    {"CumSum", "", lower_running<false>},
    {"CumProd", "", lower_running<true>},
    {"Softmax", "", by_rows<soft_max>},
    {"LogSoftmax", "", by_rows<log_soft_max>},
    {"Hardmax", "", by_rows<hard_max>},
    {"Scale", "com.microsoft", lower_scale},
};

}  // namespace

std::span<const TorchLowering> torch_reductions() { return kEntries; }

}  // namespace finity
