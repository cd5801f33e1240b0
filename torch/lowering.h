// How every op of the table is computed with LibTorch. Families hand out their entries and table.cpp lists them, as
// in src/ops.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "ops/table/op.h"
#include "torch/call.h"

namespace finity {

struct TorchLowering {
  enum class How : std::uint8_t {
    native,  // LibTorch's own functions, with their derivatives
    moved,   // the reference says where each element goes, LibTorch moves them: derivatives too
    host,    // the reference computes it: no derivatives
  };
  std::string_view name = {};
  std::string_view domain = {};
  void (*lower)(TorchCall&) = nullptr;
  // It takes float16 and bfloat16 as they are; others get float32 and their results are rounded.
  bool any_format = false;
  How how = How::native;
};

// Null: LibTorch does not run this op.
const TorchLowering* find_lowering(const OpDef& op);

std::span<const TorchLowering> torch_elementwise();
std::span<const TorchLowering> torch_activations();
std::span<const TorchLowering> torch_reductions();
std::span<const TorchLowering> torch_linear();
std::span<const TorchLowering> torch_windows();
std::span<const TorchLowering> torch_norms();
std::span<const TorchLowering> torch_movements();
std::span<const TorchLowering> torch_samples();
std::span<const TorchLowering> torch_losses();
std::span<const TorchLowering> torch_attention();
std::span<const TorchLowering> torch_microsoft();
std::span<const TorchLowering> torch_recurrent();
std::span<const TorchLowering> torch_flow();
std::span<const TorchLowering> torch_by_reference();

// ---- shared by the families --------------------------------------------------
// `axis` counted from the front. Throws Error when it is outside.
std::int64_t axis_of(std::int64_t axis, std::int64_t rank);
// The second operand of a binary op: before opset 7 it is lined up with the first by attributes.
at::Tensor aligned_right(const TorchCall& call);
bool is_integral(const at::Tensor& x);
// x as a float tensor: integers as float64, which holds what the reference computes with.
at::Tensor as_float(const at::Tensor& x);
// erfc and tanh forms of Gelu that do not cancel; silu with a factor.
at::Tensor exact_gelu(const at::Tensor& x);
at::Tensor tanh_gelu(const at::Tensor& x);
at::Tensor swish(const at::Tensor& x, double alpha);
at::Tensor soft_plus(const at::Tensor& x);
at::Tensor exponential_linear(const at::Tensor& x, double alpha);
// (x - mean) / sqrt(variance + epsilon) over the last axes from `axis` on.
struct TorchStandardized {
  at::Tensor normalized, mean, inverse_deviation;
};
TorchStandardized standardized(const at::Tensor& x, std::int64_t axis, double epsilon, bool centred);
// An activation by the name recurrent and fused ops give it.
at::Tensor activated(std::string_view function, const at::Tensor& x, double alpha, double beta);
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);
// The reference's own results.
void lower_by_reference(TorchCall& call);
// Elements of the operands in `moved` at the positions the reference moves them to.
void lower_movement(TorchCall& call, std::initializer_list<std::size_t> moved);

}  // namespace finity
