#include "ops/linear/matmul_range.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/linear/gemm_attrs.h"
#include "ops/norm/norm_relations.h"
#include "ops/shared/merged.h"
#include "ops/shared/range_rules.h"
#include "tensor/convert.h"

namespace finity {

AxisOrder matrix_order(std::size_t rank, bool transpose) {
  AxisOrder order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (transpose && rank >= 2) std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

std::int64_t broadcast_size(std::int64_t a, std::int64_t b) {
  if (a == 1) return b;
  if (b == 1 || a >= 0) return a;
  return b;
}

namespace {

// Axes by role, counted in the order given.
Contraction matmul_axes(const AbsTensor& a, const AxisOrder& a_order, const AbsTensor& b, const AxisOrder& b_order) {
  const auto size = [](const AbsTensor& x, std::size_t axis) { return x.sizes[axis]; };
  const std::size_t a_batch = a_order.size() < 2 ? 0 : a_order.size() - 2;
  const std::size_t b_batch = b_order.size() < 2 ? 0 : b_order.size() - 2;
  const std::size_t batch = std::max(a_batch, b_batch);
  Contraction result;
  for (std::size_t i = 0; i < batch; ++i) {
    ContractedAxis axis{.size = 1};
    if (i + a_batch >= batch) {
      axis.left = static_cast<int>(a_order[i + a_batch - batch]);
      axis.size = size(a, a_order[i + a_batch - batch]);
    }
    if (i + b_batch >= batch) {
      axis.right = static_cast<int>(b_order[i + b_batch - batch]);
      axis.size = broadcast_size(axis.size, size(b, b_order[i + b_batch - batch]));
    }
    result.out.push_back(axis);
  }
  if (a_order.size() > 1) result.out.push_back({static_cast<int>(a_order[a_batch]), -1, size(a, a_order[a_batch])});
  if (b_order.size() > 1) result.out.push_back({-1, static_cast<int>(b_order.back()), size(b, b_order.back())});
  const std::size_t a_inner = a_order.back(), b_inner = b_order[b_order.size() == 1 ? 0 : b_batch];
  const std::int64_t depth = size(a, a_inner) >= 0 ? size(a, a_inner) : size(b, b_inner);
  result.summed.push_back({static_cast<int>(a_inner), static_cast<int>(b_inner), depth});
  return result;
}

// The number of products where a rank is unknown: as far as the other operand tells.
SumGrid unranked_product(const AbsTensor& a, const AxisOrder& a_order, const AbsTensor& b, const AxisOrder& b_order) {
  std::int64_t depth = -1;
  if (a.ranked && a.rank() > 0) depth = a.sizes[a_order.back()];
  else if (b.ranked && b.rank() > 0) depth = b.sizes[b_order[b.rank() == 1 ? 0 : b.rank() - 2]];
  if (depth < 0) return smashed_products(a, b, 0, kManyElements);
  return smashed_products(a, b, static_cast<double>(depth), static_cast<double>(depth));
}

}  // namespace

Contracted matmul_sums(const RangeCall& call, MatMulOperand a, MatMulOperand b, std::span<const double> right_addend) {
  const AbsTensor& left = *a.operand.range;
  const AbsTensor& right = *b.operand.range;
  if (a.order.empty()) a.order = matrix_order(left.rank());
  if (b.order.empty()) b.order = matrix_order(right.rank());
  if (!left.ranked || !right.ranked || left.rank() == 0 || right.rank() == 0) {
    return {unranked_product(left, a.order, right, b.order), false};
  }
  const std::span<const double> addend = b.operand.weights != nullptr ? right_addend : std::span<const double>{};
  return contract(call, a.operand, b.operand, matmul_axes(left, a.order, right, b.order), addend);
}

void range_matmul(RangeCall& call) {
  const std::optional<Weights> right = weights_of(call, 1);
  const std::optional<Weights> left = right ? std::nullopt : weights_of(call, 0);
  const MatMulOperand a{{&call.in(0), left ? &*left : nullptr, {}}, {}};
  const MatMulOperand b{{&call.in(1), right ? &*right : nullptr, {}}, {}};
  AbsTensor result = rounded(call, call.out_type(0), matmul_sums(call, a, b).sums);
  const std::size_t ranks[] = {call.in(0).rank(), call.in(1).rank()};
  if (ranks[0] > 0 && ranks[1] > 0) {
    cap_row_products(call, call.in(0), ranks[0] - 1, call.in(1), ranks[1] > 1 ? ranks[1] - 2 : 0, result);
  }
  std::int64_t depth = ranks[0] > 0 ? call.in(0).sizes.back() : -1;
  if (depth < 0 && ranks[1] > 0) depth = call.in(1).sizes[ranks[1] > 1 ? ranks[1] - 2 : 0];
  apply_factors_last(call, depth >= 0 ? static_cast<double>(depth) : kManyElements, result);
  call.out(0, std::move(result));
}

// ---- Gemm ------------------------------------------------------------------------

namespace {

// C as one number per column of the product, times beta; empty when it is not of that form.
std::vector<double> column_addend(RangeCall& call, const GemmAttrs& attrs) {
  constexpr std::int64_t kMost = 1 << 22;
  const std::int64_t columns = call.in(1).sizes[attrs.turned_b ? 0 : 1];
  const Tensor* c = call.has_range(2) ? call.value(2, kMost) : nullptr;
  if (c == nullptr || c->dtype() != call.in(2).dtype || c->size() != columns || columns < 2) return {};
  if (c->rank() == 0 || c->dims().back() != columns) return {};
  std::vector<double> result = elements<double>(*c);
  for (double& value : result) value *= attrs.beta;
  return result;
}

bool is_matrix(const AbsTensor& x) { return x.ranked && x.rank() == 2; }

}  // namespace

void zero_times_overflow(AbsTensor& x) {
  for (Range& cell : x.cells) cell.nan |= cell.pinf || cell.ninf;
}

AbsTensor gemm_range(RangeCall& call) {
  const GemmAttrs attrs = read_gemm(call);
  const double alpha = attrs.alpha, beta = attrs.beta;
  const Type& type = call.out_type(0);
  const bool matrices = is_matrix(call.in(0)) && is_matrix(call.in(1));
  // Integers with other factors go through floats and are cut off.
  if (!is_float(type.dtype) && (alpha != 1 || beta != 1)) return uniform(type, top(type.dtype));
  const std::optional<Weights> right = matrices ? weights_of(call, 1) : std::nullopt;
  const std::optional<Weights> left = right || !matrices ? std::nullopt : weights_of(call, 0);
  std::vector<double> addend;
  if (right && alpha == 1) addend = column_addend(call, attrs);
  const MatMulOperand a{{&call.in(0), left ? &*left : nullptr, {}},
                        matrices ? matrix_order(2, attrs.turned_a) : AxisOrder{}};
  const MatMulOperand b{{&call.in(1), right ? &*right : nullptr, {}},
                        matrices ? matrix_order(2, attrs.turned_b) : AxisOrder{}};
  // Without ranks the number of products is not even known to lie along a certain axis.
  Contracted product = matrices ? matmul_sums(call, a, b, addend)
                                : Contracted{smashed_products(call.in(0), call.in(1), 0, kManyElements), false};
  if (alpha != 1) {
    for (DotSum& sum : product.sums.cells) scale_total(sum, alpha);
    product.sums.terms += 2;
  }
  if (call.has_range(2) && !product.added) add_tensor(product.sums, call.in(2), beta);
  AbsTensor result = rounded(call, type, product.sums);
  if (alpha == 0) zero_times_overflow(result);
  if (matrices && alpha == 1 && !call.has_range(2)) {
    const std::size_t a_axis = attrs.turned_a ? 0 : 1, b_axis = attrs.turned_b ? 1 : 0;
    cap_row_products(call, call.in(0), a_axis, call.in(1), b_axis, result);
  }
  return result;
}

void range_gemm(RangeCall& call) { call.out(0, gemm_range(call)); }

// ---- Det -------------------------------------------------------------------------

namespace {

// Hadamard: |det| <= (largest element * sqrt(n))^n. Elimination computes the determinant of a matrix whose elements
// differ by at most n^2 2^(n-1) roundoffs of the largest element.
Range determinant_range(DType dtype, const Range& x, double n) {
  if (x.is_empty()) return {};
  const double growth = n * n * std::exp2(n - 1) * unit_roundoff(dtype);
  const double bound = std::pow(x.magnitude() * std::sqrt(n) * (1 + growth), n) * (1 + n * unit_roundoff(dtype));
  Range result = from_bounds(dtype, -bound, bound);
  result.nan |= x.nan || x.pinf || x.ninf || result.pinf;
  result.pinf |= x.pinf || x.ninf;
  result.ninf |= x.pinf || x.ninf;
  return result;
}

}  // namespace

void range_det(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  std::int64_t size = -1;
  if (x.ranked && x.rank() >= 2) size = std::max(x.sizes[x.rank() - 1], x.sizes[x.rank() - 2]);
  if (size == 0) return call.out(0, point(1));
  if (size == 1) return call.out(0, x.hull());
  call.out(0, size < 0 ? top(dtype) : determinant_range(dtype, x.hull(), static_cast<double>(size)));
}

}  // namespace finity
