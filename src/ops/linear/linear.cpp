// Products of matrices, and what is built on them.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear/dot.h"
#include "ops/linear/gemm_attrs.h"
#include "ops/linear/linear_gradient.h"
#include "ops/linear/matmul.h"
#include "ops/linear/matmul_range.h"
#include "ops/shared/lengths.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void infer_matmul(InferCall& call) {
  if (call.ranked(0) && call.ranked(1)) call.set_shape(0, matmul_shape(call.shape(0), call.shape(1)));
}

void eval_matmul(EvalCall& call) { call.out(0, matmul(call.in(0), call.in(1))); }

// ---- Gemm: Y = alpha * A' * B' + beta * C -----------------------------------

Shape transposed_if(bool transpose, const Shape& shape, std::string_view name) {
  if (shape.size() != 2) {
    throw Error("input " + std::string(name) + " has rank " + std::to_string(shape.size()) + ", expected 2");
  }
  return transpose ? Shape{shape[1], shape[0]} : shape;
}

Shape gemm_shape(const Call& call, const Shape& a, const Shape& b) {
  const GemmAttrs attrs = read_gemm(call);
  return matmul_shape(transposed_if(attrs.turned_a, a, "A"), transposed_if(attrs.turned_b, b, "B"));
}

// Before opset 7 C had to have the shape of the result unless `broadcast` was set.
void check_addend(const Call& call, const Shape& c, const Shape& result) {
  const bool exact = call.version() < 7 && call.integer("broadcast") == 0;
  if (c.size() > result.size() || (exact && c.size() != result.size())) {
    throw Error("input C has rank " + std::to_string(c.size()) + ", which does not fit the product");
  }
  for (std::size_t i = 0; i < c.size(); ++i) {
    const Dim& have = c[c.size() - 1 - i];
    const Dim& want = result[result.size() - 1 - i];
    const bool repeats = have.size == 1 && !exact;
    if (have.known() && want.known() && have.size != want.size && !repeats) {
      throw Error("input C has size " + std::to_string(have.size) + " where the product has " +
                  std::to_string(want.size));
    }
  }
}

void infer_gemm(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1)) return;
  Shape result = gemm_shape(call, call.shape(0), call.shape(1));
  if (call.has_input(2) && call.ranked(2)) check_addend(call, call.shape(2), result);
  call.set_shape(0, std::move(result));
}

template <class A>
std::vector<A> transposed_elements(const Tensor& matrix, bool transpose) {
  std::vector<A> values = elements<A>(matrix);
  if (!transpose) return values;
  const std::int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  std::vector<A> result(values.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] = values[static_cast<std::size_t>(i * columns + j)];
    }
  }
  return result;
}

// A scale of 0 for C means that C is not read, as in BLAS: its NaNs do not count.
template <class A, class Scale>
void scale_and_add(std::vector<A>& product, Scale alpha, const std::vector<A>* addend, Scale beta) {
  for (std::size_t i = 0; i < product.size(); ++i) {
    Scale value = alpha * static_cast<Scale>(product[i]);
    if (addend != nullptr && beta != 0) value += beta * static_cast<Scale>((*addend)[i]);
    product[i] = static_cast<A>(value);
  }
}

// Integers stay exact with the usual factors of 1; otherwise they go through float64 and are truncated.
void scale_and_add(std::vector<std::uint64_t>& product, double alpha, const std::vector<std::uint64_t>* addend,
                   double beta, DType dtype) {
  if (alpha == 1 && beta == 1) {
    scale_and_add<std::uint64_t, std::uint64_t>(product, 1, addend, 1);
    return;
  }
  const auto number = [&](std::uint64_t x) {
    return is_signed_int(dtype) ? static_cast<double>(static_cast<std::int64_t>(x)) : static_cast<double>(x);
  };
  std::vector<double> scaled(product.size());
  for (std::size_t i = 0; i < product.size(); ++i) {
    scaled[i] = alpha * number(product[i]) + (addend != nullptr ? beta * number((*addend)[i]) : 0.0);
  }
  const Dims dims{static_cast<std::int64_t>(scaled.size())};
  product = elements<std::uint64_t>(from_elements<double>(dtype, dims, scaled));
}

template <class A>
Tensor gemm(const EvalCall& call, const Dims& dims, const Tensor* c) {
  const Tensor& a = call.in(0);
  const GemmAttrs attrs = read_gemm(call);
  const std::vector<A> left = transposed_elements<A>(a, attrs.turned_a);
  const std::vector<A> right = transposed_elements<A>(call.in(1), attrs.turned_b);
  std::vector<A> product(result_count(dims));
  const std::int64_t k = a.dim(attrs.turned_a ? 0 : 1);
  add_product(product.data(), left.data(), right.data(), dims[0], k, dims[1]);
  std::vector<A> addend;
  if (c != nullptr) addend = elements<A>(broadcast_to(*c, dims));
  const std::vector<A>* added = c != nullptr ? &addend : nullptr;
  if constexpr (std::is_integral_v<A>) {
    scale_and_add(product, attrs.alpha, added, attrs.beta, a.dtype());
  } else {
    scale_and_add<A, A>(product, static_cast<A>(attrs.alpha), added, static_cast<A>(attrs.beta));
  }
  return from_elements<A>(a.dtype(), dims, product);
}

void eval_gemm(EvalCall& call) {
  const auto shape = [&](std::size_t i) { return Type::tensor_of(DType::undefined, call.in(i).dims()).shape; };
  const Shape result = gemm_shape(call, shape(0), shape(1));
  const Tensor* c = call.has_input(2) ? &call.in(2) : nullptr;
  if (c != nullptr) check_addend(call, shape(2), result);
  const Dims dims = Type::tensor(DType::undefined, result).dims().value();
  call.out(0, with_dot_type(call.in(0).dtype(), [&]<class A>() { return gemm<A>(call, dims, c); }));
}

// ---- Det ---------------------------------------------------------------------

void infer_det(InferCall& call) {
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 2);
  const Shape& shape = call.shape(0);
  const Dim &rows = shape[shape.size() - 2], &columns = shape.back();
  if (rows.known() && columns.known() && rows.size != columns.size) throw Error("input X is not of square matrices");
  call.set_shape(0, Shape(shape.begin(), shape.end() - 2));
}

// Elimination with the largest pivot of each column; the product of the pivots, negated per exchange.
double determinant(double* matrix, std::size_t size) {
  double result = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < size; ++row) {
      if (std::abs(matrix[row * size + column]) > std::abs(matrix[pivot * size + column])) pivot = row;
    }
    if (pivot != column) {
      std::swap_ranges(matrix + pivot * size, matrix + (pivot + 1) * size, matrix + column * size);
      result = -result;
    }
    const double divisor = matrix[column * size + column];
    result *= divisor;
    if (divisor == 0) return result;
    for (std::size_t row = column + 1; row < size; ++row) {
      const double factor = matrix[row * size + column] / divisor;
      for (std::size_t i = column; i < size; ++i) matrix[row * size + i] -= factor * matrix[column * size + i];
    }
  }
  return result;
}

void eval_det(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 2 || x.dims().back() != x.dim(x.rank() - 2)) throw Error("input X is not of square matrices");
  std::vector<double> values = elements<double>(x);
  const auto size = static_cast<std::size_t>(x.dims().back());
  Dims dims(x.dims().begin(), x.dims().end() - 2);
  std::vector<double> result(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = determinant(values.data() + i * size * size, size);
  call.out(0, from_elements<double>(x.dtype(), std::move(dims), result));
}

// ---- drawing ---------------------------------------------------------------

bool draw_gemm(DrawCall& call) {
  if (call.rank() != 2) return false;
  const bool ta = call.integer("transA", 0) != 0, tb = call.integer("transB", 0) != 0;
  const std::int64_t m = call.length(ta ? 1 : 0), k = call.length(ta ? 0 : 1), n = call.chance(40) ? k : call.size();
  call.add_floats(tb ? Dims{n, k} : Dims{k, n});
  if (!call.chance(60)) return true;
  Dims c = call.broadcastable({m, n});
  if (c.size() > 2) c.erase(c.begin());
  call.add_floats(c);
  return true;
}

// alpha and beta are floats: what a fraction of an integer product is is not said.
bool gemm_means(DType dtype, int /*opset*/) { return is_float(dtype); }

bool draw_matmul(DrawCall& call) {
  if (call.rank() == 0) return false;
  const std::int64_t k = call.dims().back(), n = call.chance(40) ? k : call.size();
  Dims other;
  const bool batches = call.chance(50);
  for (std::int64_t i = 0; batches && i + 2 < call.rank(); ++i) other.push_back(call.chance(25) ? 1 : call.length(i));
  other.push_back(k);
  if (!call.chance(10) || other.size() > 1) other.push_back(n);
  call.add(call.draw(call.dtype(), other), 50);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "MatMul",
                  .summary =
                      "product of matrices in the last two axes, the others lined up and repeated, by numpy's rules",
                  .signature = "(A: T, B: T) -> (Y: T) where T: number",
                  .tf = "BatchMatMulV2"},
     .meaning =
         {.infer = infer_matmul, .eval = eval_matmul, .freedom = kDotFreedom, .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_matmul,
                  .length = length_matmul,
                  .vjp = matmul_gradient,
                  .overflow = "FN204",
                  .grants = {.ways = {Way::scales_last, Way::scales_weights}, .measured_on = kOnnxRuntime}},
     .traits = {.linear = true},
     .drawing = {.operands = draw_matmul, .often = 1}},
    {.identity = {.name = "Gemm",
                  .summary = "alpha * A * B + beta * C for matrices, A and B perhaps transposed",
                  .signature = "(A: T, B: T, C?: T) -> (Y: T) where T: float | int32 | int64 | uint32 | uint64",
                  .attrs = "alpha: float = 1; beta: float = 1; transA: int = 0; transB: int = 0; broadcast: int = 0 "
                           "until 6"},
     .meaning = {.infer = infer_gemm,
                 .eval = eval_gemm,
                 .freedom =
                     "products are added in index order, scaled and C added, all in float32 (float64 for float64), "
                     "and rounded once; with beta = 0 C is not read"},
     .analysis = {.range = range_gemm, .length = length_gemm, .vjp = gemm_gradient, .overflow = "FN204"},
     .traits = {.linear = true},
     .drawing = {.operands = draw_gemm, .means = gemm_means, .first = FirstOperand::matrix, .often = 1}},
    {.identity = {.name = "Det",
                  .since = 11,
                  .summary = "determinant of each square matrix",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .tf = "MatrixDeterminant"},
     .meaning = {.infer = infer_det,
                 .eval = eval_det,
                 .freedom = "elimination with partial pivoting in float64, rounded once"},
     .analysis = {.range = range_det, .vjp = det_gradient, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> linear_ops() { return kOps; }

}  // namespace finity
