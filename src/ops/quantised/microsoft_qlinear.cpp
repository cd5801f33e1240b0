// ONNX Runtime's ops on quantized tensors: dequantized to float32, computed, and
// quantized again.
#include <cmath>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/quantised/integer_product_range.h"
#include "ops/quantised/scale_and_zero.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/windows/pool_windows.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// (X, X_scale, X_zero_point?, Y_scale, Y_zero_point?) -> Y
template <class F>
void eval_unary(EvalCall& call, F f) {
  std::vector<float> values = dequantized(call, 0, 1, 2);
  for (float& value : values) value = f(value);
  call.out(0, quantized(call, call.in(0).dtype(), call.in(0).dims(), values, 3, 4));
}

void eval_sigmoid(EvalCall& call) {
  eval_unary(call, [](float x) { return 1.0F / (1.0F + std::exp(-x)); });
}

void eval_leaky_relu(EvalCall& call) {
  const auto alpha = static_cast<float>(call.real("alpha"));
  eval_unary(call, [alpha](float x) { return x < 0 ? alpha * x : x; });
}

// (A, A_scale, A_zero_point?, B, B_scale, B_zero_point?, C_scale, C_zero_point?) -> C
template <class F>
void eval_binary(EvalCall& call, F f) {
  const std::vector<float> a = dequantized(call, 0, 1, 2);
  const std::vector<float> b = dequantized(call, 3, 4, 5);
  const BroadcastPairs pairs = broadcast_pairs(call.in(0).dims(), call.in(3).dims());
  std::vector<float> values(pairs.a.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = f(a[static_cast<std::size_t>(pairs.a[i])], b[static_cast<std::size_t>(pairs.b[i])]);
  }
  call.out(0, quantized(call, call.in(0).dtype(), pairs.dims, values, 6, 7));
}

void eval_add(EvalCall& call) {
  eval_binary(call, [](float a, float b) { return a + b; });
}
void eval_mul(EvalCall& call) {
  eval_binary(call, [](float a, float b) { return a * b; });
}

void infer_binary(InferCall& call) {
  if (call.ranked(0) && call.ranked(3)) call.set_shape(0, broadcast(call.shape(0), call.shape(3)));
}

// ---- QLinearConcat: (Y_scale, Y_zero_point, then X, X_scale, X_zero_point each) ----

std::size_t part_count(const Call& call) {
  if (call.input_count() < 5 || (call.input_count() - 2) % 3 != 0) {
    throw Error("has " + std::to_string(call.input_count()) + " inputs, expected 2 and 3 for each tensor");
  }
  return (call.input_count() - 2) / 3;
}

// The parts agree in all dimensions but that of the axis, which is their sum.
Shape concat_shape(std::span<const Shape> parts, std::int64_t axis) {
  Shape out = parts[0];
  const std::size_t at = normalize_axis(axis, out.size());
  for (const Shape& part : parts.subspan(1)) {
    if (part.size() != out.size()) throw Error("the tensors differ in rank");
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i == at) {
        out[i] = out[i].known() && part[i].known() ? Dim::of(out[i].size + part[i].size) : Dim{};
      } else if (out[i].known() && part[i].known() && out[i].size != part[i].size) {
        throw Error("the tensors differ in dimension " + std::to_string(i));
      } else if (!out[i].known()) {
        out[i] = part[i];
      }
    }
  }
  return out;
}

void infer_concat(InferCall& call) {
  std::vector<Shape> parts;
  for (std::size_t i = 0; i < part_count(call); ++i) {
    if (!call.ranked(2 + 3 * i)) return;
    parts.push_back(call.shape(2 + 3 * i));
  }
  call.set_shape(0, concat_shape(parts, call.integer("axis")));
}

void eval_concat(EvalCall& call) {
  std::vector<Shape> shapes;
  std::vector<std::vector<float>> parts;
  for (std::size_t i = 0; i < part_count(call); ++i) {
    shapes.push_back(Type::tensor_of(DType::undefined, call.in(2 + 3 * i).dims()).shape);
    parts.push_back(dequantized(call, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i));
  }
  const Dims dims = Type::tensor(DType::undefined, concat_shape(shapes, call.integer("axis"))).dims().value();
  const AxisView whole(dims, normalize_axis(call.integer("axis"), dims.size()));
  std::vector<float> values(static_cast<std::size_t>(element_count(dims)));
  std::int64_t offset = 0;
  for (const std::vector<float>& part : parts) {
    const std::int64_t rows = whole.outer * whole.inner;
    const std::int64_t length = rows == 0 ? 0 : static_cast<std::int64_t>(part.size()) / rows;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(part.size()); ++i) {
      const std::int64_t outer = i / (length * whole.inner), inner = i % whole.inner;
      const std::int64_t along = i / whole.inner % length;
      values[whole.at(outer, offset + along, inner)] = part[static_cast<std::size_t>(i)];
    }
    offset += length;
  }
  call.out(0, quantized(call, call.in(1).dtype(), dims, values, 0, 1));
}

// ---- pools: (X, x_scale, x_zero_point, y_scale, y_zero_point) -> Y -------------

void require_channels_first(const Call& call) {
  if (call.integer("channels_last", 0) != 0) throw Unsupported("channels_last is not modelled");
}

void infer_average_pool(InferCall& call) {
  if (call.ranked(0) && call.integer("channels_last") == 0) call.set_shape(0, pool_shape(call, call.shape(0)));
}

void infer_global_average_pool(InferCall& call) {
  if (call.ranked(0) && call.integer("channels_last") == 0) call.set_shape(0, global_pool_shape(call.shape(0)));
}

void eval_pool(EvalCall& call, const PoolPlan& plan, bool include_pad) {
  const std::vector<float> means = average_pool<float>(plan, dequantized(call, 0, 1, 2), include_pad);
  call.out(0, quantized(call, call.in(0).dtype(), plan.out, means, 3, 4));
}

void eval_average_pool(EvalCall& call) {
  require_channels_first(call);
  eval_pool(call, plan_pool(call, call.in(0).dims()), call.integer("count_include_pad") != 0);
}

void eval_global_average_pool(EvalCall& call) {
  require_channels_first(call);
  eval_pool(call, plan_global_pool(call.in(0).dims()), false);
}

constexpr std::string_view kUnary =
    "(X: T, X_scale: float32, X_zero_point?: T, Y_scale: float32, Y_zero_point?: T) -> (Y: T) where T: int8 | uint8";
constexpr std::string_view kBinary =
    "(A: T, A_scale: float32, A_zero_point?: T, B: T, B_scale: float32, B_zero_point?: T, C_scale: float32, "
    "C_zero_point?: T) -> (C: T) where T: int8 | uint8";
constexpr std::string_view kFreedom = "computed on dequantized float32 numbers";

const Hazard kUnaryHazards[] = {{.rule = "FN307", .operand = 3, .unsafe = zero_scale}};
const Hazard kBinaryHazards[] = {{.rule = "FN307", .operand = 6, .unsafe = zero_scale}};
const Hazard kConcatHazards[] = {{.rule = "FN307", .operand = 0, .unsafe = zero_scale}};

const OpDef kOps[] = {
    {.identity =
         {.name = "QLinearAdd", .domain = kMicrosoft, .summary = "sum of two quantized tensors", .signature = kBinary},
     .meaning = {.infer = infer_binary, .eval = eval_add, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_add, .hazards = kBinaryHazards}},
    {.identity = {.name = "QLinearMul",
                  .domain = kMicrosoft,
                  .summary = "product of two quantized tensors",
                  .signature = kBinary},
     .meaning = {.infer = infer_binary, .eval = eval_mul, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_mul, .hazards = kBinaryHazards}},
    {.identity = {.name = "QLinearSigmoid",
                  .domain = kMicrosoft,
                  .summary = "1 / (1 + exp(-x)) of a quantized tensor",
                  .signature = kUnary},
     .meaning = {.infer = infer_same_shape, .eval = eval_sigmoid, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_sigmoid, .hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearLeakyRelu",
                  .domain = kMicrosoft,
                  .summary = "x, or alpha * x where negative, of a quantized tensor",
                  .signature = kUnary,
                  .attrs = "alpha: float = 0.01"},
     .meaning = {.infer = infer_same_shape, .eval = eval_leaky_relu, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_leaky_relu, .hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearConcat",
                  .domain = kMicrosoft,
                  .summary = "quantized tensors joined along an axis",
                  .signature =
                      "(Y_scale: float32, Y_zero_point: T8, inputs...: value) -> (Y: T8) where T8: int8 | uint8",
                  .attrs = "axis: int"},
     .meaning = {.infer = infer_concat, .eval = eval_concat, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_concat, .hazards = kConcatHazards}},
    {.identity =
         {.name = "QLinearAveragePool",
          .domain = kMicrosoft,
          .summary = "mean of each window of a quantized tensor",
          .signature = kUnary,
          .attrs =
              "auto_pad: string = NOTSET {NOTSET, SAME_UPPER, SAME_LOWER, VALID}; kernel_shape: ints; strides: ints; "
              "pads: ints; ceil_mode: int = 0; count_include_pad: int = 0; channels_last: int = 0"},
     .meaning = {.infer = infer_average_pool, .eval = eval_average_pool, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_pool, .hazards = kUnaryHazards}},
    {.identity = {.name = "QLinearGlobalAveragePool",
                  .domain = kMicrosoft,
                  .summary = "mean of each channel of a quantized tensor",
                  .signature = kUnary,
                  .attrs = "channels_last: int = 0"},
     .meaning = {.infer = infer_global_average_pool, .eval = eval_global_average_pool, .freedom = kFreedom},
     .analysis = {.range = range_qlinear_pool, .hazards = kUnaryHazards}},
};

}  // namespace

std::span<const OpDef> qlinear_ops() { return kOps; }

}  // namespace finity
