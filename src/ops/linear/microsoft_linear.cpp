// ONNX Runtime's matrix products and convolutions with something fused to them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/linear/linear_gradient.h"
#include "ops/linear/matmul.h"
#include "ops/linear/matmul_range.h"
#include "ops/shared/delegate.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
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

// A function, not a formula: the order of the axes depends on their number.
std::vector<ValueId> fused_matmul(BuildCall& call) {
  const auto operand = [&](std::size_t i) {
    const std::vector<std::size_t> order = operand_order(call, i, call.rank(call.in(i)));
    if (std::ranges::is_sorted(order)) return call.in(i);
    Attrs attrs;
    attrs.set("perm", std::vector<std::int64_t>(order.begin(), order.end()));
    return call.add("Transpose", {call.in(i)}, std::move(attrs));
  };
  const ValueId product = call.add("MatMul", {operand(0), operand(1)});
  const double alpha = call.real("alpha");
  return {alpha == 1 ? product : call.product(call.scalar(alpha), product)};
}

// ---- FusedGemm, FusedConv ----------------------------------------------------------

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

ValueId activated(BuildCall& call, ValueId x) {
  const std::string activation = call.text("activation", "");
  if (activation.empty()) return x;
  constexpr std::string_view kKnown[] = {"Relu", "Tanh",       "Sigmoid",  "LeakyRelu",       "Clip",    "HardSigmoid",
                                         "Elu",  "ScaledTanh", "Softsign", "ThresholdedRelu", "Softplus"};
  if (std::ranges::find(kKnown, activation) == std::end(kKnown)) throw Unsupported("activation " + activation);
  Attrs attrs = activation_attrs(call, activation);
  if (activation != "Clip") return call.add(activation, {x}, std::move(attrs));
  const auto limit = [&](std::string_view name) {
    const Attr* attr = attrs.find(name);
    return attr == nullptr ? ValueId{} : call.scalar(static_cast<double>(std::get<float>(*attr)));
  };
  return call.add("Clip", {x, limit("min"), limit("max")});
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

std::vector<ValueId> fused_gemm(BuildCall& call) {
  return {activated(call, call.add("Gemm", {call.in(0), call.in(1), call.in(2)}, without_activation(call)))};
}

std::vector<ValueId> fused_conv(BuildCall& call) {
  const ValueId y = call.add("Conv", {call.in(0), call.in(1), call.in(2)}, without_activation(call));
  return {activated(call, call.has_input(3) ? call.sum(y, call.in(3)) : y)};
}

constexpr OtherOp kMatMul{.name = "MatMul", .version = 13};

void infer_gemm_fast_gelu(InferCall& call) {
  infer_as(call, kMatMul);
  if (call.has_input(2)) require_bias(call, 2, call.outs()[0]);
}

void infer_fused_gemm(InferCall& call) { infer_as(call, kGemm); }
void infer_fused_conv(InferCall& call) {
  infer_as(call, kConv);
  const std::optional<Dims> y = call.outs()[0].dims(), z = call.in(3).dims();
  if (y && z && *y != *z) throw Error("input Z has shape " + to_string(*z));
}

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

// Not by the body: large weights that were transposed are not known element by element any more.
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

// A matrix may be singular or nearly so, whatever its elements are; of size 1 it is a number.
void range_inverse(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const bool number = x.ranked && x.rank() >= 2 && (x.sizes.back() == 1 || x.sizes[x.rank() - 2] == 1);
  if (x.hull().is_empty()) call.out(0, x.hull());
  else if (number) call.out(0, divide(x.dtype, point(1), x.hull()));
  else call.top(0);
}

constexpr std::string_view kMatMulAttrs =
    "alpha: float = 1; transA: int = 0; transB: int = 0; transBatchA: int = 0; transBatchB: int = 0";
constexpr std::string_view kFusedFreedom = "in float64, rounded once";

const OpDef kOps[] = {
    {.identity = {.name = "FusedMatMul",
                  .domain = kMicrosoft,
                  .summary = "alpha times a matrix product by numpy's rules, operands perhaps transposed",
                  .signature = "(A: T, B: T) -> (Y: T) where T: float",
                  .attrs = kMatMulAttrs},
     .meaning = {.infer = infer_fused_matmul, .body = fused_matmul, .freedom = kFusedFreedom},
     .analysis = {.range = range_fused_matmul, .overflow = "FN204"}},
    {.identity = {.name = "TransposeMatMul",
                  .domain = kMicrosoft,
                  .summary = "the former name of FusedMatMul",
                  .signature = "(A: T, B: T) -> (Y: T) where T: float",
                  .attrs = kMatMulAttrs},
     .meaning = {.infer = infer_fused_matmul, .body = fused_matmul, .freedom = kFusedFreedom},
     .analysis = {.range = range_fused_matmul, .overflow = "FN204"}},
    {.identity = {.name = "FusedGemm",
                  .domain = kMicrosoft,
                  .summary = "Gemm followed by an activation",
                  .signature = "(A: T, B: T, C?: T) -> (Y: T) where T: float",
                  .attrs =
                      "activation: string; activation_alpha: float; activation_beta: float; activation_gamma: float; "
                      "alpha: float = 1; beta: float = 1; transA: int = 0; transB: int = 0"},
     .meaning = {.infer = infer_fused_gemm, .body = fused_gemm, .freedom = kFusedFreedom},
     .analysis = {.overflow = "FN204"}},
    {.identity = {.name = "GemmFastGelu",
                  .domain = kMicrosoft,
                  .summary = "gelu, approximated with tanh, of a matrix product plus bias",
                  .signature = "(X: T, W: T, bias?: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_gemm_fast_gelu,
                 .body = formula<"Gelu(Add(MatMul(X, W), bias?), approximate='tanh')">,
                 .freedom = kFusedFreedom},
     .analysis = {.overflow = "FN204"}},
    {.identity = {.name = "FusedConv",
                  .domain = kMicrosoft,
                  .summary = "Conv, plus Z, followed by an activation",
                  .signature = "(X: T, W: T, B?: T, Z?: T) -> (Y: T) where T: float",
                  .attrs = "activation: string; activation_params: floats; auto_pad: string = NOTSET; dilations: ints; "
                           "group: int = 1; kernel_shape: ints; pads: ints; strides: ints"},
     .meaning = {.infer = infer_fused_conv, .body = fused_conv, .freedom = kFusedFreedom},
     .analysis = {.overflow = "FN204"}},
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
