// ONNX Runtime's matrix products and convolutions with something fused to them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/extra/microsoft/microsoft_gradient.h"
#include "ops/linear/dot.h"
#include "ops/linear/linear_gradient.h"
#include "ops/linear/matmul.h"
#include "ops/linear/matmul_range.h"
#include "ops/shared/delegate.h"
#include "ops/shared/function_range.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "ops/windows/conv_range.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// ---- FusedMatMul -----------------------------------------------------------------

// Order of the axes that makes [..., rows, columns] of an operand. With transBatch the first axis belongs to the
// matrix and the axes between it and the last are the batch.
std::vector<std::size_t> matrix_order(std::size_t rank, bool transpose_batch, bool transpose) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (rank < 2) return order;
  if (transpose_batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (transpose) std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

std::vector<std::size_t> operand_order(const Call& call, std::size_t input, std::size_t rank) {
  const std::string side = input == 0 ? "A" : "B";
  return matrix_order(rank, call.integer("transBatch" + side) != 0, call.integer("trans" + side) != 0);
}

void infer_fused_matmul(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1)) return;
  Shape shapes[2];
  for (const std::size_t i : {0, 1}) {
    for (const std::size_t axis : operand_order(call, i, call.rank(i))) shapes[i].push_back(call.shape(i)[axis]);
  }
  call.set_shape(0, matmul_shape(shapes[0], shapes[1]));
}

void eval_fused_matmul(EvalCall& call) {
  const auto operand = [&](std::size_t i) { return transposed(call.in(i), operand_order(call, i, call.in(i).rank())); };
  const Tensor a = operand(0), b = operand(1);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  call.out(0, with_float_sum_type(a.dtype(), [&]<class A>() {
             std::vector<A> product = matmul<A>(plan, elements<A>(a), elements<A>(b));
             const A alpha = static_cast<A>(call.real("alpha"));
             for (A& value : product) value *= alpha;
             return from_elements<A>(a.dtype(), plan.out, product);
           }));
}

// ---- FusedGemm, FusedConv ----------------------------------------------------------

// Everything happens in float32 for the narrow floats and is rounded once.
Datum widened(const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  const bool narrow = tensor != nullptr && (tensor->dtype() == DType::float16 || tensor->dtype() == DType::bfloat16);
  return narrow ? Datum(cast(*tensor, DType::float32)) : datum;
}

std::vector<Datum> widened_inputs(const EvalCall& call, std::size_t count) {
  std::vector<Datum> inputs;
  for (std::size_t i = 0; i < std::min(count, call.input_count()); ++i) inputs.push_back(widened(call.datum(i)));
  return inputs;
}

const Tensor& tensor_in(const std::vector<Datum>& outputs) {
  const Tensor* tensor = outputs.empty() ? nullptr : outputs[0].tensor();
  if (tensor == nullptr) throw Error("the fused op gave no tensor");
  return *tensor;
}

// The activation's own attributes: FusedGemm names them, FusedConv lists their values.
Attrs activation_attrs(const Call& call, std::string_view activation) {
  constexpr std::string_view kNames[] = {"alpha", "beta", "gamma"};
  Attrs attrs;
  for (const std::string_view name : kNames) {
    const std::string own = "activation_" + std::string(name);
    if (call.has_attr(own)) attrs.set(std::string(name), static_cast<float>(call.real(own, 0)));
  }
  const std::vector<double> listed = call.reals("activation_params");
  const bool clip = activation == "Clip";
  for (std::size_t i = 0; i < listed.size() && i < (clip ? 2U : 3U); ++i) {
    const std::string_view name = clip ? (i == 0 ? "min" : "max") : kNames[i];
    attrs.set(std::string(name), static_cast<float>(listed[i]));
  }
  return attrs;
}

Tensor activated(EvalCall& call, const Tensor& x) {
  const std::string activation = call.text("activation", "");
  if (activation.empty()) return x;
  constexpr std::string_view kKnown[] = {"Relu", "Tanh",       "Sigmoid",  "LeakyRelu",       "Clip",    "HardSigmoid",
                                         "Elu",  "ScaledTanh", "Softsign", "ThresholdedRelu", "Softplus"};
  if (std::ranges::find(kKnown, activation) == std::end(kKnown)) throw Unsupported("activation " + activation);
  // Clip's limits are attributes up to opset 10; the others have not changed since opset 6.
  const int version = activation == "ThresholdedRelu" ? 10 : 6;
  return tensor_in(eval_other(call, {activation, version}, activation_attrs(call, activation), {Datum(x)}));
}

Attrs without_activation(const Call& call) {
  Attrs attrs;
  for (const auto& [name, value] : call.attrs()) {
    if (!name.starts_with("activation")) attrs.set(name, value);
  }
  return attrs;
}

constexpr OtherOp kGemm{.name = "Gemm", .version = 13};
constexpr OtherOp kConv{.name = "Conv", .version = 11};

void eval_fused_gemm(EvalCall& call) {
  const Tensor y = tensor_in(eval_other(call, kGemm, without_activation(call), widened_inputs(call, 3)));
  call.out(0, cast(activated(call, y), call.in(0).dtype()));
}

void eval_fused_conv(EvalCall& call) {
  Tensor y = tensor_in(eval_other(call, kConv, without_activation(call), widened_inputs(call, 3)));
  if (call.has_input(3)) {
    const Datum z = widened(call.datum(3));
    if (call.in(3).dims() != y.dims()) throw Error("input Z has shape " + to_string(call.in(3).dims()));
    y = map_binary(y, *z.tensor(), y.dtype(), [](auto a, auto b) { return a + b; });
  }
  call.out(0, cast(activated(call, y), call.in(0).dtype()));
}

constexpr OtherOp kMatMul{.name = "MatMul", .version = 13};

void infer_gemm_fast_gelu(InferCall& call) {
  infer_as(call, kMatMul);
  if (call.has_input(2)) require_bias(call, 2, call.outs()[0]);
}

void infer_fused_gemm(InferCall& call) { infer_as(call, kGemm); }
void infer_fused_conv(InferCall& call) { infer_as(call, kConv); }

// ---- Inverse -------------------------------------------------------------------------

// Gauss-Jordan elimination with the largest pivot of each column. A singular matrix divides by zero.
void invert(double* matrix, double* result, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) result[i * size + i] = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < size; ++row) {
      if (std::abs(matrix[row * size + column]) > std::abs(matrix[pivot * size + column])) pivot = row;
    }
    const double divisor = matrix[pivot * size + column];
    for (double* half : {matrix, result}) {
      if (pivot != column) std::swap_ranges(half + pivot * size, half + (pivot + 1) * size, half + column * size);
      for (std::size_t i = 0; i < size; ++i) half[column * size + i] /= divisor;
    }
    for (std::size_t row = 0; row < size; ++row) {
      const double factor = matrix[row * size + column];
      if (row == column || factor == 0) continue;
      for (double* half : {matrix, result}) {
        for (std::size_t i = 0; i < size; ++i) half[row * size + i] -= factor * half[column * size + i];
      }
    }
  }
}

void eval_inverse(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 2 || x.dims().back() != x.dim(x.rank() - 2)) throw Error("input X is not of square matrices");
  std::vector<double> values = elements<double>(x);
  std::vector<double> inverses(values.size(), 0);
  const auto size = static_cast<std::size_t>(x.dims().back());
  for (std::size_t at = 0; at < values.size(); at += size * size)
    invert(values.data() + at, inverses.data() + at, size);
  call.out(0, from_elements(x.dtype(), x.dims(), inverses));
}

// ---- ranges ----------------------------------------------------------------------------

void range_fused_matmul(RangeCall& call) {
  const std::optional<Weights> right = weights_of(call, 1);
  const std::optional<Weights> left = right ? std::nullopt : weights_of(call, 0);
  const auto order = [&](std::size_t i) { return operand_order(call, i, call.in(i).rank()); };
  Contracted product = matmul_sums(call, {{&call.in(0), left ? &*left : nullptr, {}}, order(0)},
                                   {{&call.in(1), right ? &*right : nullptr, {}}, order(1)});
  const double alpha = call.real("alpha");
  if (alpha != 1) {
    for (DotSum& sum : product.sums.cells) scale_total(sum, alpha);
    product.sums.terms += 2;
  }
  AbsTensor result = rounded(call, call.out_type(0), product.sums);
  if (alpha == 0) zero_times_overflow(result);
  call.out(0, std::move(result));
}

// What is fused is not rounded before the activation.
AbsTensor activated_range(RangeCall& call, AbsTensor y) {
  for (Range& cell : y.cells) cell = outward(y.dtype, cell);
  const std::string activation = call.text("activation", "");
  if (activation.empty()) return y;
  const int version = activation == "ThresholdedRelu" ? 10 : 6;
  AbsTensor result =
      range_other(call, {activation, version}, activation_attrs(call, activation), {y}, call.out_type(0));
  for (Range& cell : result.cells) cell = outward(result.dtype, cell);
  return result;
}

void range_fused_gemm(RangeCall& call) { call.out(0, activated_range(call, gemm_range(call))); }

void range_fused_conv(RangeCall& call) {
  AbsTensor y = conv_range(call);
  if (call.has_range(3)) {
    const auto sum = [&](const Range& a, const Range& b) { return outward(y.dtype, add(y.dtype, a, b)); };
    const Type& type = call.out_type(0);
    y = type.ranked ? zip_cells(y, call.in(3), y.dtype, sizes_of(type), call.max_cells(), sum)
                    : uniform(type, sum(y.hull(), call.hull(3)));
  }
  call.out(0, activated_range(call, std::move(y)));
}

// A matrix may be singular or nearly so, whatever its elements are; of size 1 it is a number.
void range_inverse(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const bool number = x.ranked && x.rank() >= 2 && (x.sizes.back() == 1 || x.sizes[x.rank() - 2] == 1);
  if (x.hull().is_empty()) call.out(0, x.hull());
  else if (number) call.out(0, divide(x.dtype, point(1), x.hull()));
  else call.top(0);
}

// ---- gradients -------------------------------------------------------------------------

void give_through_one(BuildCall& call, ValueId result) {
  const ValueId results[] = {result};
  call.give_through(results);
}

void fused_matmul_gradient(BuildCall& call) {
  const auto operand = [&](std::size_t i) {
    const std::vector<std::size_t> order = operand_order(call, i, call.rank(call.in(i)));
    if (std::ranges::is_sorted(order)) return call.in(i);
    Attrs attrs;
    attrs.set("perm", std::vector<std::int64_t>(order.begin(), order.end()));
    return call.add("Transpose", {call.in(i)}, std::move(attrs));
  };
  const ValueId product = call.add("MatMul", {operand(0), operand(1)});
  const double alpha = call.real("alpha");
  give_through_one(call, alpha == 1 ? product : call.product(call.scalar(alpha), product));
}

ValueId write_activation(BuildCall& call, ValueId x) {
  const std::string activation = call.text("activation", "");
  if (activation.empty()) return x;
  Attrs attrs = activation_attrs(call, activation);
  if (activation != "Clip") return call.add(activation, {x}, std::move(attrs));
  const auto limit = [&](std::string_view name) {
    const Attr* attr = attrs.find(name);
    return attr == nullptr ? ValueId{} : call.scalar(static_cast<double>(std::get<float>(*attr)));
  };
  return call.add("Clip", {x, limit("min"), limit("max")});
}

void fused_gemm_gradient(BuildCall& call) {
  const ValueId y = call.add("Gemm", {call.in(0), call.in(1), call.in(2)}, without_activation(call));
  give_through_one(call, write_activation(call, y));
}

void fused_conv_gradient(BuildCall& call) {
  ValueId y = call.add("Conv", {call.in(0), call.in(1), call.in(2)}, without_activation(call));
  if (call.has_input(3)) y = call.sum(y, call.in(3));
  give_through_one(call, write_activation(call, y));
}

constexpr std::string_view kMatMulAttrs =
    "alpha: float = 1; transA: int = 0; transB: int = 0; transBatchA: int = 0; transBatchB: int = 0";
constexpr std::string_view kFusedFreedom = "all in float32 (float64 for float64), rounded once";

const OpDef kOps[] = {
    {.identity = {.name = "FusedMatMul",
                  .domain = kMicrosoft,
                  .summary = "alpha times a matrix product by numpy's rules, operands perhaps transposed",
                  .signature = "(A: T, B: T) -> (Y: T) where T: float",
                  .attrs = kMatMulAttrs},
     .meaning = {.infer = infer_fused_matmul, .eval = eval_fused_matmul, .freedom = kDotFreedom},
     .analysis = {.range = range_fused_matmul, .vjp = fused_matmul_gradient, .overflow = "FN204"}},
    {.identity = {.name = "TransposeMatMul",
                  .domain = kMicrosoft,
                  .summary = "the former name of FusedMatMul",
                  .signature = "(A: T, B: T) -> (Y: T) where T: float",
                  .attrs = kMatMulAttrs},
     .meaning = {.infer = infer_fused_matmul, .eval = eval_fused_matmul, .freedom = kDotFreedom},
     .analysis = {.range = range_fused_matmul, .vjp = fused_matmul_gradient, .overflow = "FN204"}},
    {.identity = {.name = "FusedGemm",
                  .domain = kMicrosoft,
                  .summary = "Gemm followed by an activation",
                  .signature = "(A: T, B: T, C?: T) -> (Y: T) where T: float",
                  .attrs =
                      "activation: string; activation_alpha: float; activation_beta: float; activation_gamma: float; "
                      "alpha: float = 1; beta: float = 1; transA: int = 0; transB: int = 0"},
     .meaning = {.infer = infer_fused_gemm, .eval = eval_fused_gemm, .freedom = kFusedFreedom},
     .analysis = {.range = range_fused_gemm, .vjp = fused_gemm_gradient, .overflow = "FN204"}},
    {.identity = {.name = "GemmFastGelu",
                  .domain = kMicrosoft,
                  .summary = "gelu, approximated with tanh, of a matrix product plus bias",
                  .signature = "(X: T, W: T, bias?: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_gemm_fast_gelu, .eval = eval_body, .freedom = "in float64, rounded once"},
     .analysis = {.range = range_body, .vjp = body_gradient, .overflow = "FN204"}},
    {.identity = {.name = "FusedConv",
                  .domain = kMicrosoft,
                  .summary = "Conv, plus Z, followed by an activation",
                  .signature = "(X: T, W: T, B?: T, Z?: T) -> (Y: T) where T: float",
                  .attrs = "activation: string; activation_params: floats; auto_pad: string = NOTSET; dilations: ints; "
                           "group: int = 1; kernel_shape: ints; pads: ints; strides: ints"},
     .meaning = {.infer = infer_fused_conv, .eval = eval_fused_conv, .freedom = kFusedFreedom},
     .analysis = {.range = range_fused_conv, .vjp = fused_conv_gradient, .overflow = "FN204"}},
    {.identity = {.name = "Inverse",
                  .domain = kMicrosoft,
                  .summary = "inverse of each square matrix",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .tf = "MatrixInverse"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_inverse,
                 .freedom = "elimination with partial pivoting in float64, rounded once"},
     .analysis = {.range = range_inverse, .vjp = inverse_gradient, .overflow = "FN101"}},
};

}  // namespace

std::span<const OpDef> microsoft_linear_ops() { return kOps; }

}  // namespace finity
