// ONNX Runtime's attention with merged projection weights (Attention) and with separate or packed queries, keys and
// values (MultiHeadAttention), and its rotary positions.
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/attention/score_mask.h"
#include "torch/heads.h"
#include "torch/lowering.h"

namespace finity {

namespace {

struct Operands {
  at::Tensor query, key, value;  // [batch, heads, length, size]
};

void check_operands(const Operands& in) {
  const bool batches = in.query.size(0) == in.key.size(0) && in.key.size(0) == in.value.size(0);
  const bool lengths = in.key.size(2) == in.value.size(2) && in.query.size(3) == in.key.size(3);
  const bool heads = in.query.size(1) == in.key.size(1) && in.key.size(1) == in.value.size(1);
  if (!batches || !lengths || !heads) throw Error("query, key and value do not fit together");
}

// What is added to the scores. Masked keys get a large negative score, not -inf; the mask has many forms, which
// ops/score_mask.h tells apart.
at::Tensor bias_of(const TorchCall& call, const Operands& in, std::size_t mask, std::size_t bias, std::int64_t past) {
  const ScoreDims dims{in.query.size(0), in.query.size(1), in.query.size(2), in.key.size(2)};
  at::Tensor result = at::zeros({1, 1, dims.queries, dims.keys}, in.query.options());
  if (call.has(mask)) {
    const PaddingMask padding(call.host(mask), dims, "the mask");
    std::vector<std::int64_t> hidden;
    for (std::int64_t b = 0; b < dims.batch; ++b) {
      for (std::int64_t i = 0; i < dims.queries; ++i) {
        for (std::int64_t j = 0; j < dims.keys; ++j) hidden.push_back(padding.hides(b, i, j) ? 1 : 0);
      }
    }
    const at::Tensor flags = list_of(hidden).reshape({dims.batch, 1, dims.queries, dims.keys});
    result = at::mul(flags.to(in.query.scalar_type()), call.real("mask_filter_value"));
  }
  if (call.integer("unidirectional") != 0) {
    const at::Tensor i = at::arange(dims.queries, at::kLong).unsqueeze(1), j = at::arange(dims.keys, at::kLong);
    const auto lowest = static_cast<double>(std::numeric_limits<float>::lowest());
    result = at::where(at::gt(j, at::add(i, past)), at::full({}, lowest, result.options()), result);
  }
  if (!call.has(bias)) return result;
  const ScoreBias check(call.host(bias), dims, "attention_bias");
  return at::add(result, call.in(bias));
}

// Scores with the bias, and what the values give.
struct Attended {
  at::Tensor scores, output;
};

Attended attended(const TorchCall& call, const Operands& in, const at::Tensor& bias) {
  double scale = call.real("scale");
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(in.query.size(3)));
  const at::Tensor products = at::mul(at::matmul(in.query, in.key.transpose(-1, -2)), scale);
  Attended result{at::add(products, bias), {}};
  result.output = at::matmul(at::softmax(result.scores, -1), in.value);
  return result;
}

void lower_attention(TorchCall& call) {
  const bool shares = call.has(6) || call.integer("past_present_share_buffer") != 0;
  if (shares || call.integer("do_rotary") != 0) return lower_by_reference(call);
  if (call.in(0).dim() != 3 || call.in(1).dim() != 2) throw Error("input or weights have the wrong rank");
  const std::int64_t heads = call.integer("num_heads"), width = call.in(1).size(1);
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  if (!given.empty() && (given.size() != 3 || given[0] != given[1])) throw Error("'qkv_hidden_sizes' is not q, q, v");
  const std::int64_t key = given.empty() ? width / 3 : given[0], value = given.empty() ? width / 3 : given[2];
  if (2 * key + value != width) throw Error("weights and heads do not fit together");
  at::Tensor rows = at::matmul(call.in(0), call.in(1));
  if (call.has(2)) rows = at::add(rows, call.in(2));
  const auto part = [&](std::int64_t first, std::int64_t size) { return heads_of(rows.narrow(2, first, size), heads); };
  Operands in{part(0, key), part(key, key), part(2 * key, value)};
  std::int64_t past = 0;
  if (call.has(4)) {
    past = call.in(4).size(3);
    in.key = at::cat({call.in(4).select(0, 0), in.key}, 2);
    in.value = at::cat({call.in(4).select(0, 1), in.value}, 2);
  }
  check_operands(in);
  call.out(0, packed_heads(attended(call, in, bias_of(call, in, 3, 5, past)).output));
  if (call.has_output(1)) call.out(1, at::stack({in.key, in.value}));
}

// ---- MultiHeadAttention ---------------------------------------------------------------

// Part of [batch, length, heads, parts, size].
at::Tensor unpacked(const at::Tensor& packed, std::int64_t part) { return packed.select(3, part).transpose(1, 2); }

Operands operands_of(const TorchCall& call, std::int64_t heads) {
  const at::Tensor& query = call.in(0);
  if (query.dim() == 5 && !call.has(1)) return {unpacked(query, 0), unpacked(query, 1), unpacked(query, 2)};
  if (query.dim() != 3 || !call.has(1)) throw Error("query and key do not fit together");
  if (call.in(1).dim() == 5) return {heads_of(query, heads), unpacked(call.in(1), 0), unpacked(call.in(1), 1)};
  return {heads_of(query, heads), heads_of(call.in(1), heads), heads_of(call.in(2), heads)};
}

// The projection's bias. Keys and values that come as heads have theirs already.
void add_biases(const TorchCall& call, Operands& in) {
  if (!call.has(3)) return;
  const auto columns = [](const at::Tensor& x) { return x.size(1) * x.size(3); };
  const std::int64_t key = columns(in.query), value = columns(in.value);
  if (call.in(3).numel() != 2 * key + value) throw Error("bias has the wrong size");
  const auto add = [&](at::Tensor& x, std::int64_t first) {
    x = at::add(x, call.in(3).narrow(0, first, columns(x)).reshape({x.size(1), 1, x.size(3)}));
  };
  add(in.query, 0);
  if (call.in(0).dim() == 3 && call.in(1).dim() == 4) return;
  add(in.key, key);
  add(in.value, 2 * key);
}

void lower_multi_head(TorchCall& call) {
  if (call.has(8) || call.has(9)) return lower_by_reference(call);
  Operands in = operands_of(call, call.integer("num_heads"));
  check_operands(in);
  add_biases(call, in);
  std::int64_t past = 0;
  if (call.has(6) != call.has(7)) throw Error("past_key and past_value must be given together");
  if (call.has(6)) {
    past = call.in(6).size(2);
    in.key = at::cat({call.in(6), in.key}, 2);
    in.value = at::cat({call.in(7), in.value}, 2);
  }
  const Attended result = attended(call, in, bias_of(call, in, 4, 5, past));
  call.out(0, packed_heads(result.output));
  call.out(1, in.key);
  call.out(2, in.value);
  call.out(3, result.scores);
}

// ---- positions ----------------------------------------------------------------------

void lower_rotary(TorchCall& call) {
  const bool packs = call.in(0).dim() == 3;
  const std::int64_t pairs = call.in(2).size(-1);
  std::int64_t heads = call.integer("num_heads");
  if (packs && heads == 0) heads = call.in(0).size(2) / std::max<std::int64_t>(2 * pairs, 1);
  const at::Tensor x = heads_of(call.in(0), packs ? heads : 0);
  const std::int64_t width = call.integer("rotary_embedding_dim");
  if (2 * pairs != (width == 0 ? x.size(3) : width)) throw Error("cos_cache has the wrong width");
  at::Tensor ids = call.in(1).to(at::kLong);
  if (ids.dim() == 1 && ids.numel() == 1) ids = at::add(at::arange(x.size(2), at::kLong), ids).expand({x.size(0), -1});
  if (ids.numel() != x.size(0) * x.size(2)) throw Error("position_ids has the wrong shape");
  const auto table = [&](std::size_t i) {
    return call.in(i).index_select(0, ids.reshape({-1})).reshape({x.size(0), 1, x.size(2), pairs});
  };
  const at::Tensor y = rotated(x, table(2), table(3), call.integer("interleaved") != 0);
  call.out(0, packs ? packed_heads(y) : y);
}

constexpr std::string_view kMicrosoft = "com.microsoft";

constexpr TorchLowering kEntries[] = {
    {"Attention", kMicrosoft, lower_attention},
    {"MultiHeadAttention", kMicrosoft, lower_multi_head},
    {"RotaryEmbedding", kMicrosoft, lower_rotary},
};

}  // namespace

std::span<const TorchLowering> torch_microsoft() { return kEntries; }

}  // namespace finity
