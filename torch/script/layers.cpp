// Products of matrices, norms, tables of vectors.
#include <string>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

void product(ScriptCall& call) {
  const char* other = call.has("mat2") ? "mat2" : call.has("vec") ? "vec" : call.has("tensor") ? "tensor" : "other";
  call.give(call.add("MatMul", {call.tensor("self"), call.tensor(other)}));
}

ValueId turned(ScriptCall& call, ValueId matrix) { return call.add("Transpose", {matrix}, {{"perm", Ints{1, 0}}}); }

void linear(ScriptCall& call) {
  const ValueId weight = call.tensor("weight");
  if (call.rank(weight) != 2) throw Unsupported("the weight is no matrix");
  const ValueId product = call.add("MatMul", {call.tensor("input"), turned(call, weight)});
  call.give(call.has("bias") ? call.add("Add", {product, call.tensor("bias")}) : product);
}

// beta * self + alpha * (mat1 x mat2); with beta = 0 nothing of self is left
void added_product(ScriptCall& call) {
  const char* left = call.has("batch1") ? "batch1" : call.has("mat") ? "mat" : "mat1";
  const char* right = call.has("batch2") ? "batch2" : call.has("vec") ? "vec" : "mat2";
  ValueId product = call.add("MatMul", {call.tensor(left), call.tensor(right)});
  ValueId self = call.tensor("self");
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  if (alpha != 1) product = call.add("Mul", {product, call.number_like(alpha, product)});
  if (beta == 0) return call.give(product);
  if (beta != 1) self = call.add("Mul", {self, call.number_like(beta, self)});
  call.give(call.add("Add", {product, self}));
}

void einsum(ScriptCall& call) {
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  call.give(call.add("Einsum", call.tensors("tensors"), {{"equation", equation}}));
}

// ---- norms --------------------------------------------------------------------------------------------------

float epsilon(const ScriptCall& call) { return static_cast<float>(call.real("eps", 1e-5)); }

void batch_norm(ScriptCall& call) {
  if (call.flag("training")) throw Unsupported("is in training mode");
  const ValueId mean = call.tensor("running_mean");
  const ValueId scale = call.has("weight") ? call.tensor("weight") : filled_like(call, mean, 1);
  const ValueId bias = call.has("bias") ? call.tensor("bias") : filled_like(call, mean, 0);
  call.give(call.add("BatchNormalization", {call.tensor("input"), scale, bias, mean, call.tensor("running_var")},
                     {{"epsilon", epsilon(call)}}));
  while (call.given.size() < call.results) call.give_nothing();
}

// Mean and deviation are further results of the native op.
void layer_norm(ScriptCall& call) {
  const Ints shape = call.ints("normalized_shape");
  const ValueId x = call.tensor("input");
  ValueId scale = call.optional_tensor("weight");
  if (!scale.valid()) scale = call.add("Expand", {call.number_like(1, x), call.vector_of(shape)});
  call.give(call.add("LayerNormalization", {x, scale, call.optional_tensor("bias")},
                     {{"axis", -static_cast<std::int64_t>(shape.size())}, {"epsilon", epsilon(call)}}));
  while (call.given.size() < call.results) call.give_nothing();
}

// A weight for every channel, or ones or zeros.
ValueId of_channels(ScriptCall& call, const char* name, double otherwise, ValueId x) {
  if (call.has(name)) return call.tensor(name);
  const std::int64_t channels = call.size(x, 1);
  if (channels < 0) throw Unsupported("the number of channels is not known (--shape gives that of inputs)");
  return call.add("Expand", {call.number_like(otherwise, x), call.vector_of({channels})});
}

void group_norm(ScriptCall& call) {
  const ValueId x = call.tensor("input");
  call.give(call.add("GroupNormalization", {x, of_channels(call, "weight", 1, x), of_channels(call, "bias", 0, x)},
                     {{"num_groups", call.integer("num_groups")}, {"epsilon", epsilon(call)}}));
}

void instance_norm(ScriptCall& call) {
  if (!call.flag("use_input_stats", true)) throw Unsupported("uses recorded means");
  const ValueId x = call.tensor("input");
  call.give(call.add("InstanceNormalization", {x, of_channels(call, "weight", 1, x), of_channels(call, "bias", 0, x)},
                     {{"epsilon", epsilon(call)}}));
}

void embedding(ScriptCall& call) {
  call.give(call.add("Gather", {call.tensor("weight"), call.tensor("indices")}, {{"axis", std::int64_t{0}}}));
}

constexpr ScriptLowering kEntries[] = {
    {"matmul", product},        {"mm", product},
    {"bmm", product},           {"mv", product},
    {"dot", product},           {"linear", linear},
    {"addmm", added_product},   {"addmv", added_product},
    {"baddbmm", added_product}, {"einsum", einsum},
    {"batch_norm", batch_norm}, {"native_batch_norm", batch_norm},
    {"layer_norm", layer_norm}, {"native_layer_norm", layer_norm},
    {"group_norm", group_norm}, {"instance_norm", instance_norm},
    {"embedding", embedding},
};

}  // namespace

std::span<const ScriptLowering> script_layers() { return kEntries; }

}  // namespace finity
