// Convolutions over float tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/linear/linear_gradient.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/windows/conv_range.h"
#include "ops/windows/direct_convolution.h"
#include "ops/windows/drawn_windows.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void infer_conv(InferCall& call) {
  if (call.has_input(2)) require_rank(call, 2, 1);
  infer_convolution(call, 0, 1, 2);
}

void eval_conv(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Tensor& w = call.in(1);
  const ConvPlan plan = plan_convolution(call, x.dims(), w.dims());
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             std::vector<A> values = convolve<A>(plan, elements<A>(x), elements<A>(w));
             if (call.has_input(2)) add_bias<A>(plan, values, elements<A>(call.in(2)));
             return from_elements<A>(x.dtype(), plan.out_dims(), values);
           }));
}

// ---- CausalConvWithState -----------------------------------------------------

// [batch, channels, length], [channels, 1, k] -> state [batch, channels, k - 1]
Shape state_shape(const Shape& x, const Shape& w) {
  if (x.size() != 3 || w.size() != 3) throw Error("input and weight are expected to have rank 3");
  if (w[1].known() && w[1].size != 1) throw Error("the weight's second dimension is not 1");
  if (x[1].known() && w[0].known() && x[1].size != w[0].size) {
    throw Error("input has " + std::to_string(x[1].size) + " channels, the weight " + std::to_string(w[0].size));
  }
  if (w[2].size == 0) throw Error("the kernel is empty");
  return {x[0], x[1], w[2].known() ? Dim::of(w[2].size - 1) : Dim{}};
}

void infer_causal_conv(InferCall& call) {
  infer_same_shape(call);
  if (call.ranked(1) && call.rank(1) > 0) check_bias(call, 2, call.shape(1)[0]);
  if (call.ranked(3)) call.set_shape(1, call.shape(3));
  if (call.ranked(0) && call.ranked(1)) call.set_shape(1, state_shape(call.shape(0), call.shape(1)));
}

// The past (zeros when there is none) followed by the input, along the last axis; any dtype.
Tensor with_past(const Tensor& x, const Tensor* past, std::int64_t length) {
  const std::int64_t rows = x.dim(0) * x.dim(1), now = x.dim(2);
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(-1);
    for (std::int64_t i = 0; i < now; ++i) positions.push_back(row * now + i);
  }
  Tensor joined = gather_elements(x, {x.dim(0), x.dim(1), length + now}, positions);
  if (past == nullptr) return joined;
  const std::size_t width = static_cast<std::size_t>(info(x.dtype()).memory_bytes);
  const std::size_t from_row = static_cast<std::size_t>(length) * width;
  const std::size_t to_row = static_cast<std::size_t>(length + now) * width;
  const std::span<std::byte> target = joined.mutable_bytes();
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::ranges::copy(past->bytes().subspan(row * from_row, from_row), target.subspan(row * to_row).begin());
  }
  return joined;
}

Tensor last_elements(const Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> positions;
  const std::int64_t length = x.dim(2);
  for (std::int64_t row = 0; row < x.dim(0) * x.dim(1); ++row) {
    for (std::int64_t i = length - count; i < length; ++i) positions.push_back(row * length + i);
  }
  return gather_elements(x, {x.dim(0), x.dim(1), count}, positions);
}

// The convolution's result is rounded to the dtype before the activation, which is computed in float32 (float64 for
// float64).
Tensor with_silu(const Tensor& x) {
  return with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = elements<A>(x);
    for (A& value : values) value = value * (A{1} / (A{1} + std::exp(-value)));
    return from_elements<A>(x.dtype(), x.dims(), values);
  });
}

void eval_causal_conv(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Tensor& w = call.in(1);
  const auto shape = [](const Tensor& tensor) { return Type::tensor_of(DType::undefined, tensor.dims()).shape; };
  const Dims state = Type::tensor(DType::undefined, state_shape(shape(x), shape(w))).dims().value();
  const Tensor* past = call.has_input(3) ? &call.in(3) : nullptr;
  if (past != nullptr && (past->dims() != state || past->dtype() != x.dtype())) {
    throw Error("past_state has shape " + to_string(past->dims()) + ", expected " + to_string(state) + " of " +
                std::string(name(x.dtype())));
  }
  const Tensor padded = with_past(x, past, state[2]);
  PlacedAxis axis{{.kernel = w.dim(2)}, padded.dim(2), x.dim(2)};
  const ConvPlan plan{.batch = x.dim(0), .groups = x.dim(1), .in_channels = 1, .out_channels = 1, .axes = {axis}};
  Tensor result = with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = convolve<A>(plan, elements<A>(padded), elements<A>(w));
    if (call.has_input(2)) add_bias<A>(plan, values, elements<A>(call.in(2)));
    return from_elements<A>(x.dtype(), x.dims(), values);
  });
  call.out(0, call.text("activation") == "none" ? result : with_silu(result));
  call.out(1, last_elements(padded, state[2]));
}

// Through a plain convolution of what came before and what is there now.
void causal_conv_gradient(BuildCall& call) {
  const std::optional<Dims> weights = call.dims(call.in(1));
  if (!weights) throw Unsupported("its derivative needs weights of a known shape");
  const std::int64_t past = (*weights)[2] - 1;
  const ValueId x = call.in(0);
  const auto attribute = [](std::string_view name, std::int64_t value) {
    Attrs attrs;
    attrs.set(std::string(name), value);
    return attrs;
  };
  const ValueId all = call.has_input(3) ? call.add("Concat", {call.in(3), x}, attribute("axis", 2))
                                        : call.add("Pad", {x, call.ints({0, 0, past, 0, 0, 0})});
  std::vector<ValueId> operands = {all, call.in(1)};
  if (call.has_input(2)) operands.push_back(call.in(2));
  ValueId y = call.add("Conv", std::move(operands), attribute("group", (*weights)[0]));
  if (call.text("activation") != "none") y = call.product(y, call.add("Sigmoid", {y}));
  std::vector<ValueId> results = {y};
  if (call.has_output(1)) {
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
    const ValueId from = call.ints({past > 0 ? -past : kEnd});
    results.push_back(call.add("Slice", {all, from, call.ints({kEnd}), call.ints({2})}));
  }
  call.give_through(results);
}

const OpDef kOps[] = {
    {.identity =
         {.name = "Conv",
          .summary = "convolution over any number of spatial axes: the sum of kernel times input under each window, "
                     "plus the bias; padding counts as zeros",
          .signature = "(X: T, W: T, B?: T) -> (Y: T) where T: float",
          .attrs =
              "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; "
              "dilations: ints; pads: ints; group: int = 1",
          .tf = "Conv2D"},
     .meaning = {.infer = infer_conv,
                 .eval = eval_conv,
                 .freedom =
                     "products are added by channel, then by kernel position, then the bias, in float32 (float64 for "
                     "float64), and rounded once; padding is skipped, not multiplied"},
     .analysis = {.range = range_conv,
                  .length = length_conv,
                  .vjp = conv_gradient,
                  .overflow = "FN204",
                  .grants = {.ways = {Way::scales_weights}, .measured_on = kOnnxRuntime}},
     .traits = {.linear = true},
     .drawing = {.operands = draw_conv, .often = 1}},
    {.identity =
         {.name = "CausalConvWithState",
          .since = 27,
          .summary =
              "one convolution per channel over the present and past positions of a sequence, with carried state",
          .signature = "(input: T, weight: T, bias?: T, past_state?: T) -> (output: T, present_state?: T) "
                       "where T: float32 | float16 | bfloat16",
          .attrs = "activation: string = none {none, silu, swish}"},
     .meaning =
         {.infer = infer_causal_conv,
          .eval = eval_causal_conv,
          .freedom =
              "products are added in order of position, then the bias, in float32; rounded before the activation"},
     .analysis = {.range = range_causal_conv, .vjp = causal_conv_gradient, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> conv_ops() { return kOps; }

}  // namespace finity
