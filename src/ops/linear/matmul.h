// Matrix products by numpy's rules: operands of rank 1 are a row and a column
// whose dimension vanishes from the result, all dimensions before the last two
// are batch dimensions and broadcast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/type.h"
#include "tensor/tensor.h"

namespace finity {

// Throws Error on a scalar operand, on inner sizes that differ, on batches that do not broadcast.
Shape matmul_shape(const Shape& a, const Shape& b);

struct MatMulPlan {
  Dims out = {};
  std::int64_t m = 1, k = 1, n = 1;
  // For every matrix of the result: which matrix of a and of b.
  std::vector<std::int64_t> a_matrix = {}, b_matrix = {};
};
MatMulPlan plan_matmul(const Dims& a, const Dims& b);

// A is one of the types of with_dot_type, or std::uint32_t.
template <class A>
std::vector<A> matmul(const MatMulPlan& plan, std::span<const A> a, std::span<const A> b);

// out[m, n] += a[m, k] * b[k, n], all row-major.
template <class A>
void add_product(A* out, const A* a, const A* b, std::int64_t m, std::int64_t k, std::int64_t n);

// In the dtype of a.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace finity
