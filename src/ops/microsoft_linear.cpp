// ONNX Runtime's matrix products and convolutions with something fused to them,
// and products with block-wise quantised weights.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/cast.h"
#include "ops/delegate.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/matmul.h"
#include "ops/move.h"
#include "ops/rules.h"
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
  for (const auto& [name, value] : call.node().attrs) {
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

// ---- MatMulNBits ---------------------------------------------------------------------

struct BlockLayout {
  std::int64_t n = 0, k = 0, bits = 0, block = 0, blocks = 0;

  explicit BlockLayout(const Call& call)
      : n(call.integer("N")), k(call.integer("K")), bits(call.integer("bits")), block(call.integer("block_size")) {
    if (n < 0 || k < 0) throw Error("attributes 'N' and 'K' are sizes");
    if (bits != 2 && bits != 4 && bits != 8) throw Unsupported("weights of " + std::to_string(bits) + " bits");
    if (block < 16 || (block & (block - 1)) != 0) throw Error("attribute 'block_size' is " + std::to_string(block));
    blocks = (k + block - 1) / block;
  }
};

// Number `index` of a row of packed bytes, low bits first.
std::int64_t unpacked(const std::uint8_t* row, std::int64_t index, std::int64_t bits) {
  const std::int64_t per_byte = 8 / bits;
  return (row[index / per_byte] >> (bits * (index % per_byte))) & ((1 << bits) - 1);
}

void require_size(const Tensor& tensor, std::string_view name, std::int64_t size) {
  if (tensor.size() == size) return;
  throw Error(std::string(name) + " has shape " + to_string(tensor.dims()) + ", expected " + std::to_string(size) +
              " elements");
}

// One per block of each row.
std::vector<double> block_zero_points(const EvalCall& call, const BlockLayout& layout) {
  const auto count = static_cast<std::size_t>(layout.n * layout.blocks);
  if (!call.has_input(3)) return std::vector<double>(count, static_cast<double>(1 << (layout.bits - 1)));
  const Tensor& given = call.in(3);
  if (given.dtype() != DType::uint8) {
    require_size(given, "zero_points", layout.n * layout.blocks);
    return elements<double>(given);
  }
  const std::int64_t row_bytes = (layout.blocks * layout.bits + 7) / 8;
  require_size(given, "zero_points", layout.n * row_bytes);
  std::vector<double> result;
  for (std::int64_t row = 0; row < layout.n; ++row) {
    for (std::int64_t b = 0; b < layout.blocks; ++b) {
      const std::uint8_t* bytes = given.data<std::uint8_t>().data() + row * row_bytes;
      result.push_back(static_cast<double>(unpacked(bytes, b, layout.bits)));
    }
  }
  return result;
}

// The block whose scale an input feature has: its own, or the one g_idx names.
std::vector<std::int64_t> feature_blocks(const EvalCall& call, const BlockLayout& layout) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < layout.k; ++i) result.push_back(i / layout.block);
  if (!call.has_input(4)) return result;
  const std::vector<std::int64_t> given = elements<std::int64_t>(call.in(4));
  if (given.size() < result.size()) throw Error("g_idx has fewer elements than K");
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (given[i] < 0 || given[i] >= layout.blocks) throw Error("g_idx names block " + std::to_string(given[i]));
    result[i] = given[i];
  }
  return result;
}

// The weights as a matrix [K, N] of floats.
std::vector<float> dequantized(const EvalCall& call, const BlockLayout& layout) {
  const std::int64_t blob = layout.block * layout.bits / 8;
  require_size(call.in(1), "B", layout.n * layout.blocks * blob);
  require_size(call.in(2), "scales", layout.n * layout.blocks);
  const std::vector<double> scales = elements<double>(call.in(2));
  const std::vector<double> zeros = block_zero_points(call, layout);
  const std::vector<std::int64_t> blocks = feature_blocks(call, layout);
  const std::span<const std::uint8_t> bytes = call.in(1).data<std::uint8_t>();
  std::vector<float> result(result_count(Dims{layout.k, layout.n}));
  for (std::int64_t row = 0; row < layout.n; ++row) {
    const std::uint8_t* packed = bytes.data() + row * layout.blocks * blob;
    for (std::int64_t i = 0; i < layout.k; ++i) {
      const auto at = static_cast<std::size_t>(row * layout.blocks + blocks[static_cast<std::size_t>(i)]);
      const double level = static_cast<double>(unpacked(packed, i, layout.bits)) - zeros[at];
      result[static_cast<std::size_t>(i * layout.n + row)] = static_cast<float>(level * scales[at]);
    }
  }
  return result;
}

void infer_matmul_nbits(InferCall& call) {
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 1);
  Shape shape = call.shape(0);
  if (shape.back().known() && shape.back().size != call.integer("K")) {
    throw Error("the last dimension of A is " + std::to_string(shape.back().size) + ", attribute 'K' is " +
                std::to_string(call.integer("K")));
  }
  shape.back() = Dim::of(call.integer("N"));
  call.set_shape(0, std::move(shape));
}

void eval_matmul_nbits(EvalCall& call) {
  const BlockLayout layout(call);
  if (call.integer("weight_prepacked") != 0) throw Unsupported("prepacked weights");
  const Tensor& a = call.in(0);
  if (a.rank() == 0 || a.dims().back() != layout.k) throw Error("A has shape " + to_string(a.dims()));
  Dims dims = a.dims();
  dims.back() = layout.n;
  const std::vector<float> left = elements<float>(a);
  const std::vector<float> right = dequantized(call, layout);
  std::vector<float> product(result_count(dims));
  const std::int64_t rows = element_count(std::span(dims).first(dims.size() - 1));
  add_product(product.data(), left.data(), right.data(), rows, layout.k, layout.n);
  if (call.has_input(5)) {
    require_size(call.in(5), "bias", layout.n);
    const std::vector<float> bias = elements<float>(call.in(5));
    for (std::size_t i = 0; i < product.size(); ++i) product[i] += bias[i % bias.size()];
  }
  call.out(0, from_elements<float>(a.dtype(), std::move(dims), product));
}

constexpr std::string_view kMatMulAttrs =
    "alpha: float = 1; transA: int = 0; transB: int = 0; transBatchA: int = 0; transBatchB: int = 0";
constexpr std::string_view kFusedFreedom = "all in float32 (float64 for float64), rounded once";

const OpDef kOps[] = {
    {.name = "FusedMatMul",
     .domain = kMicrosoft,
     .summary = "alpha times a matrix product by numpy's rules, operands perhaps transposed",
     .signature = "(A: T, B: T) -> (Y: T) where T: float",
     .attrs = kMatMulAttrs,
     .freedom = kDotFreedom,
     .infer = infer_fused_matmul,
     .eval = eval_fused_matmul},
    {.name = "TransposeMatMul",
     .domain = kMicrosoft,
     .summary = "the former name of FusedMatMul",
     .signature = "(A: T, B: T) -> (Y: T) where T: float",
     .attrs = kMatMulAttrs,
     .freedom = kDotFreedom,
     .infer = infer_fused_matmul,
     .eval = eval_fused_matmul},
    {.name = "FusedGemm",
     .domain = kMicrosoft,
     .summary = "Gemm followed by an activation",
     .signature = "(A: T, B: T, C?: T) -> (Y: T) where T: float",
     .attrs = "activation: string; activation_alpha: float; activation_beta: float; activation_gamma: float; "
              "alpha: float = 1; beta: float = 1; transA: int = 0; transB: int = 0",
     .freedom = kFusedFreedom,
     .infer = infer_fused_gemm,
     .eval = eval_fused_gemm},
    {.name = "FusedConv",
     .domain = kMicrosoft,
     .summary = "Conv, plus Z, followed by an activation",
     .signature = "(X: T, W: T, B?: T, Z?: T) -> (Y: T) where T: float",
     .attrs = "activation: string; activation_params: floats; auto_pad: string = NOTSET; dilations: ints; "
              "group: int = 1; kernel_shape: ints; pads: ints; strides: ints",
     .freedom = kFusedFreedom,
     .infer = infer_fused_conv,
     .eval = eval_fused_conv},
    {.name = "Inverse",
     .domain = kMicrosoft,
     .summary = "inverse of each square matrix",
     .signature = "(X: T) -> (Y: T) where T: float",
     .tf = "MatrixInverse",
     .freedom = "elimination with partial pivoting in float64, rounded once",
     .infer = infer_same_shape,
     .eval = eval_inverse},
    {.name = "MatMulNBits",
     .domain = kMicrosoft,
     .summary = "product with a weight matrix of 2, 4 or 8 bits that has one scale per block",
     .signature = "(A: T, B: uint8, scales: T, zero_points?: Z, g_idx?: int32, bias?: T) -> (Y: T) "
                  "where T: float, Z: float | uint8",
     .attrs = "K: int; N: int; accuracy_level: int = 0; bits: int = 4; block_size: int; weight_prepacked: int = 0",
     .freedom = "weights are dequantised to float32 and A is not quantised, whatever accuracy_level allows; products "
                "are added in index order in float32 and rounded once",
     .infer = infer_matmul_nbits,
     .eval = eval_matmul_nbits},
};

}  // namespace

std::span<const OpDef> microsoft_linear_ops() { return kOps; }

}  // namespace finity
