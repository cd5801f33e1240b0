// Products and convolutions of quantized numbers: zero points are subtracted,
// the integers multiplied and added in 32 bits (which wrap), and the sums scaled.
#include <algorithm>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear/dot.h"
#include "ops/linear/gemm_attrs.h"
#include "ops/linear/matmul.h"
#include "ops/quantised/integer_product_range.h"
#include "ops/quantised/scale_and_zero.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "ops/windows/direct_convolution.h"
#include "ops/windows/drawn_windows.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
using Words = std::vector<std::uint32_t>;

const Tensor* optional_in(const EvalCall& call, std::size_t i) { return call.has_input(i) ? &call.in(i) : nullptr; }

// A parameter of a matrix operand for every element of `dims`. A vector belongs to the rows of the left operand and to
// the columns of the right one; anything else broadcasts.
enum class Side : std::uint8_t { left, right };

Tensor spread(const Tensor& parameter, Side side, const Dims& dims) {
  if (parameter.size() == 1) return broadcast_to(parameter.reshaped({}), dims);
  if (side == Side::left && parameter.rank() == 1) return broadcast_to(parameter.reshaped({parameter.size(), 1}), dims);
  return broadcast_to(parameter, dims);
}

// x - zero_point for every element.
template <class A>
std::vector<A> centered(const Tensor& x, const Tensor* zero_point, Side side) {
  const std::vector<double> values = elements<double>(x);
  std::vector<double> zeros(values.size(), 0);
  if (zero_point != nullptr) zeros = elements<double>(spread(*zero_point, side, x.dims()));
  std::vector<A> result(values.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double difference = values[i] - zeros[i];
    if constexpr (std::is_integral_v<A>) result[i] = static_cast<A>(static_cast<std::int64_t>(difference));
    else result[i] = static_cast<A>(difference);
  }
  return result;
}

float signed_value(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word)); }

Tensor as_int32(Dims dims, const Words& words) {
  return from_elements<std::uint64_t>(DType::int32, std::move(dims),
                                      std::vector<std::uint64_t>(words.begin(), words.end()));
}

// ---- matrix products ---------------------------------------------------------

template <std::size_t First, std::size_t Second>
void infer_product(InferCall& call) {
  if (call.ranked(First) && call.ranked(Second)) call.set_shape(0, matmul_shape(call.shape(First), call.shape(Second)));
}

struct IntegerProduct {
  Dims dims = {};
  Words sums = {};
};

IntegerProduct integer_product(const Tensor& a, const Tensor* a_zero, const Tensor& b, const Tensor* b_zero) {
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  const Words left = centered<std::uint32_t>(a, a_zero, Side::left);
  const Words right = centered<std::uint32_t>(b, b_zero, Side::right);
  return {plan.out, matmul<std::uint32_t>(plan, left, right)};
}

void eval_matmul_integer(EvalCall& call) {
  const IntegerProduct product = integer_product(call.in(0), optional_in(call, 2), call.in(1), optional_in(call, 3));
  call.out(0, as_int32(product.dims, product.sums));
}

// a_scale * b_scale for every element of the product, in float32.
std::vector<float> product_scales(const Tensor& a_scale, const Tensor& b_scale, const Dims& dims) {
  std::vector<float> scales = elements<float>(spread(a_scale, Side::left, dims));
  const std::vector<float> right = elements<float>(spread(b_scale, Side::right, dims));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] *= right[i];
  return scales;
}

// sums * scales / y_scale, rounded and saturated; the quotient of scales is formed first.
Tensor requantized(const EvalCall& call, std::span<const float> sums, std::span<const float> scales, const Dims& dims,
                   std::size_t y_scale, std::size_t y_zero_point) {
  const float divisor = scalar_scale(call, y_scale);
  const Tensor& zero_tensor = call.in(y_zero_point);
  const double zero = zero_tensor.size() == 1 ? element_as_double(zero_tensor, 0) : 0;
  if (zero_tensor.size() != 1) throw Error("y_zero_point has shape " + to_string(zero_tensor.dims()));
  std::vector<double> result(sums.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float scaled = sums[i] * (scales[i] / divisor);
    result[i] = quantize_number(zero_tensor.dtype(), static_cast<double>(scaled), zero);
  }
  return from_elements<double>(zero_tensor.dtype(), dims, result);
}

std::vector<float> as_floats(const Words& words) {
  std::vector<float> result(words.size());
  std::ranges::transform(words, result.begin(), signed_value);
  return result;
}

void eval_qlinear_matmul(EvalCall& call) {
  const Tensor& a = call.in(0);
  const Tensor& b = call.in(3);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  std::vector<float> sums;
  if (is_int(a.dtype()) && is_int(b.dtype())) {
    sums = as_floats(integer_product(a, &call.in(2), b, &call.in(5)).sums);
  } else {
    const std::vector<float> left = centered<float>(a, &call.in(2), Side::left);
    const std::vector<float> right = centered<float>(b, &call.in(5), Side::right);
    sums = matmul<float>(plan, left, right);
  }
  const std::vector<float> scales = product_scales(call.in(1), call.in(4), plan.out);
  call.out(0, requantized(call, sums, scales, plan.out, 6, 7));
}

// sums * scales + bias in float32.
Tensor scaled_with_bias(const IntegerProduct& product, std::span<const float> scales, const Tensor* bias, DType dtype) {
  std::vector<float> result = as_floats(product.sums);
  std::vector<float> added(result.size(), 0);
  if (bias != nullptr) added = elements<float>(broadcast_to(*bias, product.dims));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] * scales[i] + added[i];
  return from_elements<float>(dtype, product.dims, result);
}

void eval_matmul_integer_to_float(EvalCall& call) {
  const IntegerProduct product = integer_product(call.in(0), optional_in(call, 4), call.in(1), optional_in(call, 5));
  const std::vector<float> scales = product_scales(call.in(2), call.in(3), product.dims);
  call.out(0, scaled_with_bias(product, scales, optional_in(call, 6), call.in(2).dtype()));
}

void eval_dynamic_quantize_matmul(EvalCall& call) {
  const DynamicQuantized a = dynamically_quantized(elements<float>(call.in(0)));
  const Tensor quantized = from_elements<double>(DType::uint8, call.in(0).dims(), a.values);
  const Tensor zero = from_elements<double>(DType::uint8, {}, std::vector<double>{a.zero_point});
  const IntegerProduct product = integer_product(quantized, &zero, call.in(1), optional_in(call, 3));
  const std::vector<float> scales = product_scales(Tensor::scalar(a.scale), call.in(2), product.dims);
  call.out(0, scaled_with_bias(product, scales, optional_in(call, 4), DType::float32));
}

// ---- QGemm -------------------------------------------------------------------

Shape flipped(const Shape& shape, bool flip) {
  if (shape.size() != 2) throw Error("a matrix has rank " + std::to_string(shape.size()) + ", expected 2");
  return flip ? Shape{shape[1], shape[0]} : shape;
}

void infer_qgemm(InferCall& call) {
  if (!call.has_input(8)) call.set_dtype(0, DType::float32);
  else if (call.in(8).dtype != DType::undefined) call.set_dtype(0, call.in(8).dtype);
  if (!call.ranked(0) || !call.ranked(3)) return;
  const GemmAttrs attrs = read_gemm(call);
  call.set_shape(0, matmul_shape(flipped(call.shape(0), attrs.turned_a), flipped(call.shape(3), attrs.turned_b)));
}

Tensor flipped(const Tensor& matrix, bool flip) {
  require_rank(matrix, "a matrix", 2);
  if (!flip) return matrix;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < matrix.size(); ++i) {
    positions.push_back(i % matrix.dim(0) * matrix.dim(1) + i / matrix.dim(0));
  }
  return gather_elements(matrix, {matrix.dim(1), matrix.dim(0)}, positions);
}

void eval_qgemm(EvalCall& call) {
  const GemmAttrs attrs = read_gemm(call);
  IntegerProduct product = integer_product(flipped(call.in(0), attrs.turned_a), optional_in(call, 2),
                                           flipped(call.in(3), attrs.turned_b), optional_in(call, 5));
  if (call.has_input(6)) {
    const std::vector<std::int64_t> added = elements<std::int64_t>(broadcast_to(call.in(6), product.dims));
    for (std::size_t i = 0; i < added.size(); ++i) product.sums[i] += static_cast<std::uint32_t>(added[i]);
  }
  std::vector<float> scales = product_scales(call.in(1), call.in(4), product.dims);
  for (float& scale : scales) scale *= static_cast<float>(attrs.alpha);
  if (call.has_input(8)) call.out(0, requantized(call, as_floats(product.sums), scales, product.dims, 7, 8));
  else call.out(0, scaled_with_bias(product, scales, nullptr, DType::float32));
}

// ---- convolutions ------------------------------------------------------------

// One value per output channel, or one for all: as a tensor that broadcasts against W [M, ...].
Tensor per_channel(const Tensor& parameter, const Dims& w) {
  if (parameter.size() == 1) return parameter.reshaped({});
  Dims dims(w.size(), 1);
  dims[0] = parameter.size();
  return parameter.reshaped(dims);
}

Words convolve_integers(const ConvPlan& plan, const Tensor& x, const Tensor* x_zero, const Tensor& w,
                        const Tensor* w_zero) {
  if (x_zero != nullptr && x_zero->size() != 1) throw Error("x_zero_point does not have one element");
  Tensor weight_zero;
  if (w_zero != nullptr) weight_zero = per_channel(*w_zero, w.dims());
  const Words input = centered<std::uint32_t>(x, x_zero, Side::right);
  const Words weights = centered<std::uint32_t>(w, w_zero != nullptr ? &weight_zero : nullptr, Side::right);
  return convolve<std::uint32_t>(plan, input, weights);
}

void infer_conv_integer(InferCall& call) { infer_convolution(call, 0, 1); }

void eval_conv_integer(EvalCall& call) {
  const ConvPlan plan = plan_convolution(call, call.in(0).dims(), call.in(1).dims());
  const Words sums = convolve_integers(plan, call.in(0), optional_in(call, 2), call.in(1), optional_in(call, 3));
  call.out(0, as_int32(plan.out_dims(), sums));
}

void infer_qlinear_conv(InferCall& call) { infer_convolution(call, 0, 3, 8); }

void eval_qlinear_conv(EvalCall& call) {
  if (call.integer("channels_last", 0) != 0) throw Unsupported("channels_last is not modelled");
  const Tensor& w = call.in(3);
  const ConvPlan plan = plan_convolution(call, call.in(0).dims(), w.dims());
  Words sums = convolve_integers(plan, call.in(0), optional_in(call, 2), w, optional_in(call, 5));
  if (call.has_input(8)) {
    const std::vector<std::int64_t> bias = elements<std::int64_t>(call.in(8));
    add_bias<std::uint32_t>(plan, sums, Words(bias.begin(), bias.end()));
  }
  const Dims dims = plan.out_dims();
  const Tensor& w_scale = call.in(4);
  const Dims channel_dims(dims.begin() + 1, dims.end());
  std::vector<float> scales = elements<float>(broadcast_to(per_channel(w_scale, channel_dims), dims));
  for (float& scale : scales) scale *= scalar_scale(call, 1);
  call.out(0, requantized(call, as_floats(sums), scales, dims, 6, 7));
}

constexpr std::string_view kConvAttrs =
    "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; "
    "dilations: ints; pads: ints; group: int = 1";
constexpr std::string_view kQLinearConvSignature =
    "(x: T1, x_scale: float32, x_zero_point: T1, w: T2, w_scale: float32, w_zero_point: T2, y_scale: float32, "
    "y_zero_point: T3, B?: int32) -> (y: T3) where T1: int8 | uint8, T2: int8 | uint8, T3: int8 | uint8";
constexpr std::string_view kRequantizeFreedom =
    "sums in int32; the product of the input scales over the output scale is formed first, in float32; rounded to "
    "nearest even before the zero point is added";

const Hazard kScaleHazards[] = {{.rule = "FN307", .operand = 6, .unsafe = unsafe_zero_of_floats}};
const Hazard kGemmHazards[] = {{.rule = "FN307", .operand = 7, .unsafe = unsafe_zero_of_floats}};

const OpDef kOps[] = {
    {.identity = {.name = "MatMulInteger",
                  .since = 10,
                  .summary = "matrix product of 8-bit integers into int32",
                  .signature =
                      "(A: T1, B: T2, a_zero_point?: T1, b_zero_point?: T2) -> (Y: int32) where T1: int8 | uint8, "
                      "T2: int8 | uint8"},
     .meaning = {.infer = infer_product<0, 1>, .eval = eval_matmul_integer, .freedom = "sums wrap in 32 bits"},
     .analysis = {.range = range_matmul_integer},
     .drawing = {.ends = Ends::given}},
    {.identity = {.name = "QLinearMatMul",
                  .since = 10,
                  .summary = "matrix product of quantized numbers, quantized again",
                  .signature =
                      "(a: T1, a_scale: TS, a_zero_point: T1, b: T2, b_scale: TS, b_zero_point: T2, y_scale: TS, "
                      "y_zero_point: T3) -> (y: T3) where TS: float32 | float16 | bfloat16, "
                      "T1: int8 | uint8 | float8e4m3fn | float8e4m3fnuz | float8e5m2 | float8e5m2fnuz, "
                      "T2: int8 | uint8 | float8e4m3fn | float8e4m3fnuz | float8e5m2 | float8e5m2fnuz, "
                      "T3: int8 | uint8 | float8e4m3fn | float8e4m3fnuz | float8e5m2 | float8e5m2fnuz"},
     .meaning = {.infer = infer_product<0, 3>, .eval = eval_qlinear_matmul, .freedom = kRequantizeFreedom},
     .analysis = {.range = range_qlinear_matmul, .hazards = kScaleHazards},
     .drawing = {.ends = Ends::given}},
    {.identity = {.name = "ConvInteger",
                  .since = 10,
                  .summary = "convolution of 8-bit integers into int32",
                  .signature =
                      "(x: T1, w: T2, x_zero_point?: T1, w_zero_point?: T2) -> (y: int32) where T1: int8 | uint8, "
                      "T2: int8 | uint8",
                  .attrs = kConvAttrs},
     .meaning = {.infer = infer_conv_integer,
                 .eval = eval_conv_integer,
                 .freedom = "sums wrap in 32 bits; padding counts as the zero point"},
     .analysis = {.range = range_conv_integer},
     .drawing = {.ends = Ends::given}},
    {.identity = {.name = "QLinearConv",
                  .since = 10,
                  .summary = "convolution of quantized numbers, quantized again",
                  .signature = kQLinearConvSignature,
                  .attrs = kConvAttrs},
     .meaning = {.infer = infer_qlinear_conv, .eval = eval_qlinear_conv, .freedom = kRequantizeFreedom},
     .analysis = {.range = range_qlinear_conv, .hazards = kScaleHazards},
     .drawing = {.operands = draw_qlinear_conv, .ends = Ends::given}},
    {.identity =
         {.name = "QGemm",
          .domain = kMicrosoft,
          .summary = "Gemm of quantized numbers, quantized again when an output scale is given",
          .signature =
              "(A: TA, a_scale: float32, a_zero_point: TA, B: TB, b_scale: float32, b_zero_point: TB, C?: int32, "
              "y_scale?: float32, y_zero_point?: TY) -> (Y: float32 | int8 | uint8) "
              "where TA: int8 | uint8, TB: int8 | uint8, TY: int8 | uint8",
          .attrs = "alpha: float = 1; transA: int = 0; transB: int = 0"},
     .meaning = {.infer = infer_qgemm, .eval = eval_qgemm, .freedom = kRequantizeFreedom},
     .analysis = {.range = range_qgemm, .hazards = kGemmHazards, .overflow = "FN204"}},
    {.identity =
         {.name = "MatMulIntegerToFloat",
          .domain = kMicrosoft,
          .summary = "matrix product of 8-bit integers, scaled to floats, plus a bias",
          .signature =
              "(A: T1, B: T2, a_scale: T3, b_scale: T3, a_zero_point?: T1, b_zero_point?: T2, bias?: T3) -> (Y: T3) "
              "where T1: int8 | uint8, T2: int8 | uint8, T3: float32 | float16"},
     .meaning = {.infer = infer_product<0, 1>,
                 .eval = eval_matmul_integer_to_float,
                 .freedom = "sums in int32, scaled by the product of the scales in float32"},
     .analysis = {.range = range_matmul_integer_to_float, .overflow = "FN204"}},
    {.identity = {.name = "DynamicQuantizeMatMul",
                  .domain = kMicrosoft,
                  .summary = "matrix product with A quantized to uint8 on the fly, scaled to floats, plus a bias",
                  .signature =
                      "(A: float32, B: T2, b_scale: float32, b_zero_point?: T2, bias?: float32) -> (Y: float32) "
                      "where T2: int8 | uint8"},
     .meaning = {.infer = infer_product<0, 1>,
                 .eval = eval_dynamic_quantize_matmul,
                 .freedom = "sums in int32, scaled by the product of the scales in float32"},
     .analysis = {.range = range_dynamic_quantize_matmul, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> quantized_linear_ops() { return kOps; }

}  // namespace finity
