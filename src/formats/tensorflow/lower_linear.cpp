// Products of matrices, biases, and the fused ops of converted graphs.
#include <algorithm>
#include <string>

#include "formats/tensorflow/channels.h"

namespace finity::tensorflow {

namespace {

// ---- products --------------------------------------------------------------

ValueId matrix_product(TfCall& call, bool transpose_a, bool transpose_b) {
  if (!transpose_a && !transpose_b) return call.add("MatMul", {call.in(0), call.in(1)});
  return call.add("Gemm", {call.in(0), call.in(1)},
                  {{"transA", std::int64_t{transpose_a}}, {"transB", std::int64_t{transpose_b}}});
}

void lower_matmul(TfCall& call) {
  call.give(matrix_product(call, call.flag("transpose_a", false), call.flag("transpose_b", false)));
}

// The last two axes exchanged.
ValueId adjoint(Emit& emit, ValueId x) {
  std::vector<std::int64_t> order = counted(emit.rank(x));
  if (order.size() < 2) throw Unsupported("a matrix is expected");
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return emit.transpose(x, order);
}

void lower_batch_matmul(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.flag("adj_x", false) ? adjoint(emit, call.in(0)) : call.in(0);
  const ValueId y = call.flag("adj_y", false) ? adjoint(emit, call.in(1)) : call.in(1);
  call.give(emit.add("MatMul", {x, y}));
}

void lower_einsum(TfCall& call) {
  call.give(call.add("Einsum", call.tensors(0, call.input_count()), {{"equation", call.text("equation", "")}}));
}

// ---- biases ----------------------------------------------------------------

bool channels_are_second(const TfCall& call) { return call.text("data_format", "NHWC").substr(0, 2) == "NC"; }

ValueId biased(TfCall& call, ValueId x, ValueId bias) {
  Emit emit(call);
  if (!channels_are_second(call)) return emit.sum(x, bias);
  return emit.sum(x, per_channel(emit, {.last = false, .spatial = emit.rank(x) - 2}, bias));
}

void lower_bias_add(TfCall& call) { call.give(biased(call, call.in(0), call.in(1))); }

void lower_bias_add_grad(TfCall& call) {
  Emit emit(call);
  const std::size_t rank = emit.rank(call.in(0));
  if (rank < 2) throw Unsupported("the gradient has fewer than two axes");
  std::vector<std::int64_t> axes = counted(rank);
  axes.erase(axes.begin() + (channels_are_second(call) ? 1 : static_cast<std::ptrdiff_t>(rank) - 1));
  call.give(emit.reduce("ReduceSum", call.in(0), axes, false));
}

// ---- fused -----------------------------------------------------------------

// Applies fused_ops to x, taking further operands from `next` on.
ValueId with_fused(TfCall& call, ValueId x, int next) {
  Emit emit(call);
  for (const std::string& fused : call.texts("fused_ops")) {
    if (fused == "BiasAdd") x = biased(call, x, call.in(next++));
    else if (fused == "Add") x = emit.sum(x, call.in(next++));
    else if (fused == "Prelu") x = emit.add("PRelu", {x, call.in(next++)});
    else if (fused == "Relu" || fused == "Sigmoid" || fused == "Tanh") x = emit.add(fused, {x});
    else if (fused == "Elu") x = emit.add("Elu", {x}, {{"alpha", 1.0F}});
    else if (fused == "Relu6") x = emit.add("Clip", {x, emit.number_like(0, x), emit.number_like(6, x)});
    else if (fused == "LeakyRelu")
      x = emit.add("LeakyRelu", {x}, {{"alpha", static_cast<float>(call.real("leakyrelu_alpha", 0.2))}});
    else throw Unsupported("fused op " + fused + " is not modelled");
  }
  return x;
}

template <bool kDepthwise>
void lower_fused_conv(TfCall& call) {
  call.give(with_fused(call, convolved(call, call.in(0), call.in(1), 2, kDepthwise), 2));
}

void lower_fused_matmul(TfCall& call) {
  const ValueId product = matrix_product(call, call.flag("transpose_a", false), call.flag("transpose_b", false));
  call.give(with_fused(call, product, 2));
}

constexpr Lowering kLinear[] = {
    {.op = "BatchMatMul", .lower = lower_batch_matmul},
    {.op = "BatchMatMulV2", .lower = lower_batch_matmul},
    {.op = "BatchMatMulV3", .lower = lower_batch_matmul},
    {.op = "BiasAdd", .lower = lower_bias_add},
    {.op = "BiasAddGrad", .lower = lower_bias_add_grad},
    {.op = "BiasAddV1", .lower = lower_bias_add},
    {.op = "Einsum", .lower = lower_einsum},
    {.op = "FusedDepthwiseConv2dNative", .lower = lower_fused_conv<true>},
    {.op = "MatMul", .lower = lower_matmul},
    {.op = "_FusedConv2D", .lower = lower_fused_conv<false>},
    {.op = "_FusedDepthwiseConv2dNative", .lower = lower_fused_conv<true>},
    {.op = "_FusedMatMul", .lower = lower_fused_matmul},
};

}  // namespace

std::span<const Lowering> linear_lowerings() { return kLinear; }

}  // namespace finity::tensorflow
