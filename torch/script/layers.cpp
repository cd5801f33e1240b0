// Products of matrices, convolutions, pools, norms, tables of vectors.
#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"
#include "torch/script/call.h"

namespace finity {

namespace {

void product(ScriptCall& call) {
  call.give(call.add("MatMul", {call.tensor("self"), call.tensor(call.has("mat2") ? "mat2" : "other")}));
}

ValueId turned(ScriptCall& call, ValueId matrix) { return call.add("Transpose", {matrix}, {{"perm", Ints{1, 0}}}); }

void linear(ScriptCall& call) {
  const ValueId weight = call.tensor("weight");
  if (call.rank(weight) != 2) throw Unsupported("the weight is no matrix");
  const ValueId product = call.add("MatMul", {call.tensor("input"), turned(call, weight)});
  call.give(call.has("bias") ? call.add("Add", {product, call.tensor("bias")}) : product);
}

// beta * self + alpha * (mat1 x mat2)
void added_product(ScriptCall& call) {
  const bool batched = call.has("batch1");
  ValueId product =
      call.add("MatMul", {call.tensor(batched ? "batch1" : "mat1"), call.tensor(batched ? "batch2" : "mat2")});
  ValueId self = call.tensor("self");
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  if (alpha != 1) product = call.add("Mul", {product, call.number_like(alpha, product)});
  if (beta != 1) self = call.add("Mul", {self, call.number_like(beta, self)});
  call.give(call.add("Add", {product, self}));
}

void einsum(ScriptCall& call) {
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  call.give(call.add("Einsum", call.tensors("tensors"), {{"equation", equation}}));
}

// ---- windows ------------------------------------------------------------------------------------------------

// One number stands for all axes.
Ints spread(Ints numbers, std::size_t axes) {
  if (numbers.size() == 1) numbers.resize(axes, numbers.front());
  if (numbers.size() != axes) throw Unsupported("has windows of another rank");
  return numbers;
}

Ints both_ends(Ints pads) {
  const Ints same = pads;
  pads.insert(pads.end(), same.begin(), same.end());
  return pads;
}

void convolution(ScriptCall& call) {
  const ValueId weight = call.tensor("weight");
  const std::size_t axes = call.rank(weight) - 2;
  const bool turned = call.flag("transposed", call.op.find("transpose") != std::string::npos);
  const Ints strides = spread(call.ints("stride", {1}), axes), dilations = spread(call.ints("dilation", {1}), axes);
  const Ints pads = both_ends(spread(call.ints("padding", {0}), axes));
  const std::int64_t groups = call.integer("groups", 1);
  const std::vector<ValueId> operands = {call.tensor("input"), weight, call.optional_tensor("bias")};
  if (!turned) {
    call.give(call.add("Conv", operands,
                       {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", groups}}));
    return;
  }
  const Ints more = spread(call.ints("output_padding", {0}), axes);
  call.give(call.add(
      "ConvTranspose", operands,
      {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", groups}, {"output_padding", more}}));
}

template <std::size_t Axes>
void max_pool(ScriptCall& call) {
  const Ints kernel = spread(call.ints("kernel_size"), Axes);
  const Ints own = call.ints("stride", {});
  if (call.flag("ceil_mode")) throw Unsupported("rounds the number of windows up");
  call.give(call.add("MaxPool", {call.tensor("self")},
                     {{"kernel_shape", kernel},
                      {"strides", own.empty() ? kernel : spread(own, Axes)},
                      {"pads", both_ends(spread(call.ints("padding", {0}), Axes))},
                      {"dilations", spread(call.ints("dilation", {1}), Axes)}}));
}

template <std::size_t Axes>
void average_pool(ScriptCall& call) {
  if (call.has("divisor_override")) throw Unsupported("divides by a number of its own");
  const Ints kernel = spread(call.ints("kernel_size"), Axes);
  const Ints own = call.ints("stride", {});
  if (call.flag("ceil_mode")) throw Unsupported("rounds the number of windows up");
  const std::int64_t all = call.flag("count_include_pad", true) ? 1 : 0;
  call.give(call.add("AveragePool", {call.tensor("self")},
                     {{"kernel_shape", kernel},
                      {"strides", own.empty() ? kernel : spread(own, Axes)},
                      {"pads", both_ends(spread(call.ints("padding", {0}), Axes))},
                      {"count_include_pad", all}}));
}

template <OpName Op>
void whole_pool(ScriptCall& call) {
  if (!std::ranges::all_of(call.ints("output_size"), [](std::int64_t size) { return size == 1; }))
    throw Unsupported("leaves more than one place");
  call.give(call.add(Op.letters, {call.tensor("self")}));
}

// ---- norms --------------------------------------------------------------------------------------------------

float epsilon(const ScriptCall& call) { return static_cast<float>(call.real("eps", 1e-5)); }

// As many ones or zeros as the other tensor has elements.
ValueId filled_like(ScriptCall& call, ValueId like, double x) {
  const ValueId shape = call.add("Shape", {like});
  const ValueId number = call.number_like(x, like);
  return call.add("Expand", {number, shape});
}

void batch_norm(ScriptCall& call) {
  if (call.flag("training")) throw Unsupported("is in training mode");
  const ValueId mean = call.tensor("running_mean");
  const ValueId scale = call.has("weight") ? call.tensor("weight") : filled_like(call, mean, 1);
  const ValueId bias = call.has("bias") ? call.tensor("bias") : filled_like(call, mean, 0);
  call.give(call.add("BatchNormalization", {call.tensor("input"), scale, bias, mean, call.tensor("running_var")},
                     {{"epsilon", epsilon(call)}}));
}

void layer_norm(ScriptCall& call) {
  const Ints shape = call.ints("normalized_shape");
  const ValueId x = call.tensor("input");
  ValueId scale = call.optional_tensor("weight");
  if (!scale.valid()) scale = call.add("Expand", {call.number_like(1, x), call.vector_of(shape)});
  call.give(call.add("LayerNormalization", {x, scale, call.optional_tensor("bias")},
                     {{"axis", -static_cast<std::int64_t>(shape.size())}, {"epsilon", epsilon(call)}}));
}

void group_norm(ScriptCall& call) {
  if (!call.has("weight") || !call.has("bias")) throw Unsupported("has no weights");
  call.give(call.add("GroupNormalization", {call.tensor("input"), call.tensor("weight"), call.tensor("bias")},
                     {{"num_groups", call.integer("num_groups")}, {"epsilon", epsilon(call)}}));
}

void instance_norm(ScriptCall& call) {
  if (!call.flag("use_input_stats", true)) throw Unsupported("uses recorded means");
  if (!call.has("weight") || !call.has("bias")) throw Unsupported("has no weights");
  call.give(call.add("InstanceNormalization", {call.tensor("input"), call.tensor("weight"), call.tensor("bias")},
                     {{"epsilon", epsilon(call)}}));
}

void embedding(ScriptCall& call) {
  call.give(call.add("Gather", {call.tensor("weight"), call.tensor("indices")}, {{"axis", std::int64_t{0}}}));
}

constexpr ScriptLowering kEntries[] = {
    {"matmul", product},
    {"mm", product},
    {"bmm", product},
    {"linear", linear},
    {"addmm", added_product},
    {"baddbmm", added_product},
    {"einsum", einsum},
    {"_convolution", convolution},
    {"convolution", convolution},
    {"conv1d", convolution},
    {"conv2d", convolution},
    {"conv3d", convolution},
    {"conv_transpose1d", convolution},
    {"conv_transpose2d", convolution},
    {"conv_transpose3d", convolution},
    {"max_pool1d", max_pool<1>},
    {"max_pool2d", max_pool<2>},
    {"max_pool3d", max_pool<3>},
    {"avg_pool1d", average_pool<1>},
    {"avg_pool2d", average_pool<2>},
    {"avg_pool3d", average_pool<3>},
    {"adaptive_avg_pool1d", whole_pool<"GlobalAveragePool">},
    {"adaptive_avg_pool2d", whole_pool<"GlobalAveragePool">},
    {"adaptive_avg_pool3d", whole_pool<"GlobalAveragePool">},
    {"adaptive_max_pool2d", whole_pool<"GlobalMaxPool">},
    {"batch_norm", batch_norm},
    {"layer_norm", layer_norm},
    {"group_norm", group_norm},
    {"instance_norm", instance_norm},
    {"embedding", embedding},
};

}  // namespace

std::span<const ScriptLowering> script_layers() { return kEntries; }

}  // namespace finity
