// Attention, and the layers around it that PyTorch runs as one op in evaluation.
#include <cmath>

#include "base/error.h"
#include "torch/script/common.h"
#include "torch/script/tables.h"

namespace finity {

namespace {

ValueId linear_of(ScriptCall& call, ValueId x, const char* weight, const char* bias) {
  const ValueId turned = call.add("Transpose", {call.tensor(weight)}, {{"perm", Ints{1, 0}}});
  return call.add("Add", {call.add("MatMul", {x, turned}), call.tensor(bias)});
}

// Queries are scaled before they meet the keys.
ValueId self_attention(ScriptCall& call, ValueId x, std::int64_t width, std::int64_t heads) {
  if (call.rank(x) != 3) throw Unsupported("has no batch");
  const ValueId all = linear_of(call, x, "qkv_weight", "qkv_bias");
  const std::int64_t each = width / heads;
  const std::vector<ValueId> parts = call.add_split(all, call.vector_of({width, width, width}), 2, 3);
  const auto by_heads = [&](ValueId part, Ints order) {
    const ValueId split = call.add("Reshape", {part, call.vector_of({0, 0, heads, each})});
    return call.add("Transpose", {split}, {{"perm", std::move(order)}});
  };
  ValueId q = by_heads(parts[0], {0, 2, 1, 3});
  q = call.add("Mul", {q, call.number_like(1 / std::sqrt(static_cast<double>(each)), q)});
  const ValueId scores = call.add("MatMul", {q, by_heads(parts[1], {0, 2, 3, 1})});
  const ValueId shares = call.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const ValueId mixed = call.add("MatMul", {shares, by_heads(parts[2], {0, 2, 1, 3})});
  const ValueId together = call.add("Transpose", {mixed}, {{"perm", Ints{0, 2, 1, 3}}});
  return linear_of(call, call.add("Reshape", {together, call.vector_of({0, 0, width})}), "proj_weight", "proj_bias");
}

void encoder_layer(ScriptCall& call) {
  if (call.has("mask")) throw Unsupported("has a mask");
  const bool first = call.flag("norm_first");
  const auto norm = [&](ValueId x, const char* weight, const char* bias) {
    return call.add("LayerNormalization", {x, call.tensor(weight), call.tensor(bias)},
                    {{"axis", std::int64_t{-1}}, {"epsilon", number(call.real("eps", 1e-5))}});
  };
  const auto norm_1 = [&](ValueId x) { return norm(x, "norm_weight_1", "norm_bias_1"); };
  const auto norm_2 = [&](ValueId x) { return norm(x, "norm_weight_2", "norm_bias_2"); };
  const ValueId source = call.tensor("src");
  ValueId x =
      self_attention(call, first ? norm_1(source) : source, call.integer("embed_dim"), call.integer("num_heads"));
  x = call.add("Add", {x, source});
  if (!first) x = norm_1(x);
  ValueId inner = linear_of(call, first ? norm_2(x) : x, "ffn_weight_1", "ffn_bias_1");
  inner = call.add(call.flag("use_gelu") ? "Gelu" : "Relu", {inner});
  x = call.add("Add", {linear_of(call, inner, "ffn_weight_2", "ffn_bias_2"), x});
  call.give(first ? x : norm_2(x));
}

// Weights of one input for all three; what it attends to is not given.
void native_attention(ScriptCall& call) {
  const ValueId query = call.tensor("query");
  if (call.has("mask")) throw Unsupported("has a mask");
  if (query != call.tensor("key") || query != call.tensor("value")) throw Unsupported("attends to something else");
  call.give(self_attention(call, query, call.integer("embed_dim"), call.integer("num_head")));
  call.give_nothing();
}

constexpr ScriptLowering kEntries[] = {
    {"_transformer_encoder_layer_fwd", encoder_layer},
    {"_native_multi_head_attention", native_attention},
};

}  // namespace

std::span<const ScriptLowering> script_attention() { return kEntries; }

}  // namespace finity
