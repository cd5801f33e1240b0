// Attention over heads, rotary positions.
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/attention/attention_attrs.h"
#include "torch/heads.h"
#include "torch/lowering.h"

namespace finity {

at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  if (x.dim() == 4) return x;
  if (x.dim() != 3 || heads <= 0 || x.size(2) % heads != 0) throw Error("an operand does not split into heads");
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

at::Tensor packed_heads(const at::Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1}); }

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved) {
  const std::int64_t pairs = cos.size(-1), size = x.size(-1);
  const at::Tensor turning = x.narrow(-1, 0, 2 * pairs);
  const at::Tensor first = interleaved ? at::slice(turning, -1, 0, 2 * pairs, 2) : turning.narrow(-1, 0, pairs);
  const at::Tensor second = interleaved ? at::slice(turning, -1, 1, 2 * pairs, 2) : turning.narrow(-1, pairs, pairs);
  const at::Tensor real = at::sub(at::mul(cos, first), at::mul(sin, second));
  const at::Tensor imaginary = at::add(at::mul(sin, first), at::mul(cos, second));
  const at::Tensor turned =
      interleaved ? at::stack({real, imaginary}, -1).reshape(turning.sizes()) : at::cat({real, imaginary}, -1);
  return at::cat({turned, x.narrow(-1, 2 * pairs, size - 2 * pairs)}, -1);
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Key and value heads that several query heads share, one for each.
at::Tensor shared(const at::Tensor& x, std::int64_t heads) {
  if (x.size(1) == heads) return x;
  if (x.size(1) == 0 || heads % x.size(1) != 0) throw Error("query, key and value do not fit together");
  return x.repeat_interleave(heads / x.size(1), 1);
}

// 0 where a key may be seen, -inf where it may not: causality and windows count from the query's absolute position.
at::Tensor frontier(const TorchCall& call, const at::Tensor& query, const at::Tensor& key, at::Tensor allowed) {
  const std::int64_t queries = query.size(2), keys = key.size(2);
  const Reach reach = attention_reach(call);
  const std::int64_t past = call.has(4) ? call.in(4).size(2) : 0;
  at::Tensor offset = at::full({query.size(0), 1, 1, 1}, past, at::TensorOptions(at::kLong));
  const at::Tensor j = at::arange(keys, at::kLong).reshape({1, 1, 1, keys});
  if (call.has(6)) {
    const at::Tensor lengths = call.in(6).to(at::kLong).reshape({query.size(0), 1, 1, 1});
    allowed = at::logical_and(allowed, at::lt(j, lengths));
    if (!call.has(4)) offset = at::sub(lengths, queries);
  }
  const at::Tensor i = at::add(at::arange(queries, at::kLong).reshape({1, 1, queries, 1}), offset);
  if (reach.causal) allowed = at::logical_and(allowed, at::le(j, i));
  if (reach.left >= 0) allowed = at::logical_and(allowed, at::ge(j, at::sub(i, reach.left)));
  if (reach.right >= 0) allowed = at::logical_and(allowed, at::le(j, at::add(i, reach.right)));
  return allowed;
}

// The mask as something to add; a short one forbids the keys behind it.
at::Tensor bias_of(const TorchCall& call, const at::Tensor& query, const at::Tensor& key) {
  const std::int64_t keys = key.size(2);
  at::Tensor allowed = at::ones({1, 1, query.size(2), keys}, at::kBool);
  at::Tensor bias = at::zeros({1, 1, 1, keys}, query.options());
  if (call.has(3)) {
    at::Tensor mask = call.in(3);
    const std::int64_t missing = keys - mask.size(-1);
    const Dims scores{query.size(0), query.size(1), query.size(2)};
    bool fits = missing >= 0 && mask.dim() >= 1 && mask.dim() <= 4;
    for (std::int64_t axis = 2; fits && axis <= mask.dim(); ++axis) {
      const std::int64_t size = mask.size(-axis);
      fits = size == 1 || size == scores[static_cast<std::size_t>(4 - axis)];
    }
    if (!fits) throw Error("attn_mask does not fit the scores");
    if (mask.scalar_type() == at::kBool) {
      allowed = at::constant_pad_nd(mask.to(at::kByte), {0, missing}, 0).to(at::kBool);
    } else {
      bias = at::constant_pad_nd(mask.to(query.scalar_type()), {0, missing}, -kInf);
    }
  }
  allowed = frontier(call, query, key, allowed);
  return at::where(allowed, bias, at::full({}, -kInf, query.options()));
}

// Rounded to the softmax's precision where that is coarser.
at::Tensor rounded(const TorchCall& call, const at::Tensor& x) {
  const DType dtype = softmax_precision(call);
  return dtype != DType::undefined && info(dtype).bits < 32 ? x.to(carrier(dtype)).to(x.scalar_type()) : x;
}

void lower_attention(TorchCall& call) {
  const bool packs = call.in(0).dim() == 3;
  const at::Tensor query = heads_of(call.in(0), packs ? stated_heads(call, "q_num_heads") : 0);
  at::Tensor key = heads_of(call.in(1), packs ? stated_heads(call, "kv_num_heads") : 0);
  at::Tensor value = heads_of(call.in(2), packs ? stated_heads(call, "kv_num_heads") : 0);
  if (call.has(4) != call.has(5)) throw Error("past_key and past_value must be given together");
  if (call.has(4)) {
    key = at::cat({call.in(4), key}, 2);
    value = at::cat({call.in(5), value}, 2);
  }
  call.out(1, key);
  call.out(2, value);
  const std::int64_t heads = query.size(1);
  const double root = std::sqrt(score_scale(call).value_or(1.0 / std::sqrt(static_cast<double>(query.size(3)))));
  const at::Tensor bias = bias_of(call, query, key);
  at::Tensor scores = at::matmul(at::mul(query, root), at::mul(shared(key, heads), root).transpose(-1, -2));
  const int mode = call.has_output(3) ? kept_scores(call) : -1;
  if (mode == 0) call.out(3, scores);
  const double cap = call.real("softcap");
  if (cap > 0) scores = at::mul(at::tanh(at::div(scores, cap)), cap);
  if (mode == 1) call.out(3, scores);
  scores = at::add(scores, bias);
  if (mode == 2) call.out(3, scores);
  // A query that may see no key attends to nothing.
  const at::Tensor blind = at::all(at::eq(bias, -kInf), -1, true);
  const at::Tensor zero = at::zeros({}, scores.options());
  const at::Tensor weights = rounded(call, at::softmax(rounded(call, at::where(blind, zero, scores)), -1));
  const at::Tensor seen = at::where(blind, zero, weights);
  if (mode == 3) call.out(3, seen);
  const at::Tensor y = at::matmul(seen, shared(value, heads).to(seen.scalar_type()));
  call.out(0, packs ? packed_heads(y) : y);
}

// ---- rotary positions -----------------------------------------------------------

void lower_rotary(TorchCall& call) {
  const bool packs = call.in(0).dim() == 3;
  const at::Tensor x = heads_of(call.in(0), packs ? stated_heads(call, "num_heads") : 0);
  const auto table = [&](std::size_t i) {
    const at::Tensor& cache = call.in(i);
    if (!call.has(3)) return cache.unsqueeze(1);
    const at::Tensor rows = cache.index_select(0, call.in(3).to(at::kLong).reshape({-1}));
    return rows.reshape({x.size(0), 1, x.size(2), -1});
  };
  const std::int64_t width = call.integer("rotary_embedding_dim");
  if (2 * call.in(1).size(-1) != (width == 0 ? x.size(3) : width)) throw Error("cos_cache has the wrong width");
  const at::Tensor y = rotated(x, table(1), table(2), call.integer("interleaved") != 0);
  call.out(0, packs ? packed_heads(y) : y);
}

constexpr TorchLowering kEntries[] = {
    {"Attention", "", lower_attention},
    {"RotaryEmbedding", "", lower_rotary},
};

}  // namespace

std::span<const TorchLowering> torch_attention() { return kEntries; }

}  // namespace finity
