// Products of matrices. Integers are multiplied in 64 bits and wrap.
#include <string>

#include "base/error.h"
#include "ops/linear/gemm_attrs.h"
#include "torch/lowering.h"

namespace finity {

// LibTorch multiplies matrices of integers, but not in every form; an outer product and a sum always work.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  if (!is_integral(a)) return at::matmul(a, b);
  return at::matmul(a.to(at::kLong), b.to(at::kLong));
}

namespace {

void lower_matmul(TorchCall& call) { call.out(0, matrix_product(call.in(0), call.in(1))); }

at::Tensor gemm(const TorchCall& call) {
  at::Tensor a = call.in(0);
  at::Tensor b = call.in(1);
  if (a.dim() != 2 || b.dim() != 2) throw Error("inputs A and B are not matrices");
  const auto [alpha, beta, turned_a, turned_b] = read_gemm(call);
  if (turned_a) a = a.t();
  if (turned_b) b = b.t();
  at::Tensor product = matrix_product(a, b);
  const bool scaled = alpha != 1 || (call.has(2) && beta != 1);
  if (is_integral(product) && scaled) product = product.to(at::kDouble);
  if (alpha != 1) product = at::mul(product, alpha);
  // A factor of 0 for C means that C is not read.
  if (!call.has(2) || beta == 0) return product;
  return at::add(product, beta == 1 ? call.in(2) : at::mul(call.in(2), beta));
}

// LibTorch knows letters without spaces, and an output always.
void lower_einsum(TorchCall& call) {
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    operands.push_back(is_integral(call.in(i)) ? call.in(i).to(at::kLong) : call.in(i));
  }
  std::string equation;
  for (const char c : call.text("equation")) {
    if (c != ' ') equation += c;
  }
  call.out(0, at::einsum(equation, operands));
}

void lower_det(TorchCall& call) { call.out(0, at::det(call.in(0).to(at::kDouble))); }
void lower_inverse(TorchCall& call) { call.out(0, at::inverse(call.in(0).to(at::kDouble))); }

// ---- integers -------------------------------------------------------------------

// x minus its zero point, which is one number or one per row (column) of the matrix.
at::Tensor centred(const TorchCall& call, std::size_t x, std::size_t zero, bool rows) {
  const at::Tensor wide = call.in(x).to(at::kLong);
  if (!call.has(zero)) return wide;
  const at::Tensor point = call.in(zero).to(at::kLong);
  if (point.numel() == 1) return at::sub(wide, point.reshape({}));
  return at::sub(wide, rows && point.dim() == 1 ? point.unsqueeze(-1) : point);
}

void lower_matmul_integer(TorchCall& call) {
  call.out(0, at::matmul(centred(call, 0, 2, true), centred(call, 1, 3, false)));
}

constexpr TorchLowering kEntries[] = {
    {"MatMul", "", lower_matmul},
    {"Gemm", "", [](TorchCall& call) { call.out(0, gemm(call)); }},
    {"Einsum", "", lower_einsum},
    {"Det", "", lower_det},
    {"MatMulInteger", "", lower_matmul_integer},
    {"Inverse", "com.microsoft", lower_inverse},
};

}  // namespace

std::span<const TorchLowering> torch_linear() { return kEntries; }

}  // namespace finity
