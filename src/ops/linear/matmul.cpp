#include "ops/linear/matmul.h"

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear/dot.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

Shape known_shape(const Dims& dims) { return Type::tensor_of(DType::undefined, dims).shape; }

template <class List>
List batch_of(const List& list) {
  return list.size() <= 2 ? List() : List(list.begin(), list.end() - 2);
}

}  // namespace

Shape matmul_shape(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) throw Error("operand " + std::string(a.empty() ? "A" : "B") + " is a scalar");
  const Dim& a_inner = a.back();
  const Dim& b_inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (a_inner.known() && b_inner.known() && a_inner.size != b_inner.size) {
    throw Error("inner sizes " + std::to_string(a_inner.size) + " (A) and " + std::to_string(b_inner.size) +
                " (B) differ");
  }
  Shape result = broadcast(batch_of(a), batch_of(b));
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  return result;
}

MatMulPlan plan_matmul(const Dims& a, const Dims& b) {
  MatMulPlan plan;
  plan.out = Type::tensor(DType::undefined, matmul_shape(known_shape(a), known_shape(b))).dims().value();
  plan.m = a.size() == 1 ? 1 : a[a.size() - 2];
  plan.k = a.back();
  plan.n = b.size() == 1 ? 1 : b.back();
  BroadcastPairs pairs = broadcast_pairs(batch_of(a), batch_of(b));
  plan.a_matrix = std::move(pairs.a);
  plan.b_matrix = std::move(pairs.b);
  return plan;
}

template <class A>
void add_product(A* out, const A* a, const A* b, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i) {
    if (n == 1) {
      A sum = out[i];
      for (std::int64_t j = 0; j < k; ++j) sum += a[i * k + j] * b[j];
      out[i] = sum;
      continue;
    }
    for (std::int64_t j = 0; j < k; ++j) add_scaled(out + i * n, b + j * n, a[i * k + j], n);
  }
}

template <class A>
std::vector<A> matmul(const MatMulPlan& plan, std::span<const A> a, std::span<const A> b) {
  std::vector<A> out(result_count(plan.out));
  for (std::size_t i = 0; i < plan.a_matrix.size(); ++i) {
    add_product(out.data() + static_cast<std::int64_t>(i) * plan.m * plan.n,
                a.data() + plan.a_matrix[i] * plan.m * plan.k, b.data() + plan.b_matrix[i] * plan.k * plan.n, plan.m,
                plan.k, plan.n);
  }
  return out;
}

template void add_product(float*, const float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void add_product(double*, const double*, const double*, std::int64_t, std::int64_t, std::int64_t);
template void add_product(std::uint64_t*, const std::uint64_t*, const std::uint64_t*, std::int64_t, std::int64_t,
                          std::int64_t);
template std::vector<float> matmul(const MatMulPlan&, std::span<const float>, std::span<const float>);
template std::vector<double> matmul(const MatMulPlan&, std::span<const double>, std::span<const double>);
template std::vector<std::uint32_t> matmul(const MatMulPlan&, std::span<const std::uint32_t>,
                                           std::span<const std::uint32_t>);
template std::vector<std::uint64_t> matmul(const MatMulPlan&, std::span<const std::uint64_t>,
                                           std::span<const std::uint64_t>);

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw Error("operands are " + std::string(name(a.dtype())) + " and " + std::string(name(b.dtype())));
  }
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  return with_dot_type(a.dtype(), [&]<class A>() {
    return from_elements<A>(a.dtype(), plan.out, matmul<A>(plan, elements<A>(a), elements<A>(b)));
  });
}

}  // namespace finity
