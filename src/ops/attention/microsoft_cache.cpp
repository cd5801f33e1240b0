// ONNX Runtime's attention for decoders with a key-value cache (GroupQueryAttention)
// and its rotary positions.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/attention/attention_range.h"
#include "ops/attention/group_query.h"
#include "ops/attention/heads.h"
#include "ops/attention/microsoft_attention_gradient.h"
#include "ops/attention/rotary.h"
#include "ops/attention/score_mask.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

void refuse_unmodelled_cache(const Call& call) {
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    if (call.text(name) != "NONE") throw Unsupported("a quantised cache");
  }
  if (call.integer("sliding_window_cache") != 0) throw Unsupported("a cache of the size of the window");
  if (call.has_input(12) || call.has_input(13)) throw Unsupported("a quantised cache");
  if (call.has_input(14) || call.has_input(15)) throw Unsupported("normalisation of queries and keys");
}

// Small enough that sums and products of a few stay far from overflow.
std::int64_t head_count(const Call& call, std::string_view name) {
  const std::int64_t count = call.integer(name);
  if (count < 1 || count > 1 << 20) throw Error("attribute '" + std::string(name) + "' is " + std::to_string(count));
  return count;
}

int kept_group_scores(const Call& call) {
  const std::int64_t mode = call.integer("qk_output");
  if (mode != 1 && mode != 2) throw Error("output_qk is asked for with attribute 'qk_output' " + std::to_string(mode));
  return mode == 1 ? 2 : 3;
}

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- RotaryEmbedding ---------------------------------------------------------------

// Heads of a packed input are as wide as num_heads says, else as wide as the caches.
std::int64_t rotary_heads(const Call& call, const Tensor& x, std::int64_t pairs) {
  if (x.rank() != 3) return 0;
  const std::int64_t given = call.integer("num_heads");
  if (given != 0) return given;
  if (pairs == 0 || x.dim(2) % (2 * pairs) != 0) {
    throw Error("input of shape " + to_string(x.dims()) + " has no heads of size " + std::to_string(2 * pairs));
  }
  return x.dim(2) / (2 * pairs);
}

void eval_rotary(EvalCall& call) {
  const Tensor& x = call.in(0);
  const std::vector<std::int64_t> ids = elements<std::int64_t>(call.in(1));
  require_rank(call.in(2), "cos_cache", 2);
  with_float_sum_type(x.dtype(), [&]<class A>() {
    const RotaryTables<A> tables(call.in(2), call.in(3));
    Heads<A> heads = heads_of<A>(x, rotary_heads(call, x, tables.pairs()), "input");
    const std::int64_t width = call.integer("rotary_embedding_dim");
    if (2 * tables.pairs() != (width == 0 ? heads.size : width)) {
      throw Error("cos_cache has shape " + to_string(call.in(2).dims()) + " for heads of size " +
                  std::to_string(heads.size));
    }
    const bool one_offset = call.in(1).dims() == Dims{1};
    if (!one_offset && call.in(1).dims() != Dims{heads.batch, heads.length}) {
      throw Error("position_ids has shape " + to_string(call.in(1).dims()));
    }
    rotate_heads(heads, tables, call.integer("interleaved") != 0, [&](std::int64_t b, std::int64_t i) {
      return one_offset ? ids[0] + i : ids[static_cast<std::size_t>(b * heads.length + i)];
    });
    call.out(0, x.rank() == 3 ? packed_tensor(heads, x.dtype()) : tensor_of(heads, x.dtype()));
  });
}

// ---- GroupQueryAttention -------------------------------------------------------------

// The width of a head when the queries alone, or queries, keys and values together, are `width` wide.
Dim head_size(const Call& call, const Dim& width, bool packed) {
  const std::int64_t heads = head_count(call, "num_heads") + (packed ? 2 * head_count(call, "kv_num_heads") : 0);
  return width.known() ? Dim::of(width.size / heads) : Dim{};
}

void infer_group_query(InferCall& call) {
  require_rank(call, 0, 3);
  if (!call.ranked(0)) return;
  const Shape& query = call.shape(0);
  const bool packed = !call.has_input(1);
  const Dim size = head_size(call, query[2], packed);
  const Dim heads = Dim::of(head_count(call, "num_heads"));
  call.set_shape(0, {query[0], query[1], packed ? product(std::vector<Dim>{heads, size}) : query[2]});
  // The cache grows to the total length unless it is already longer.
  Dim length;
  const auto total = call.ints(6);
  const bool cached = call.has_input(3);
  if (total && total->size() == 1 && (!cached || (call.ranked(3) && call.rank(3) == 4 && call.shape(3)[2].known()))) {
    length = Dim::of(std::max(total->front(), cached ? call.shape(3)[2].size : 0));
  }
  const Shape cache{query[0], Dim::of(head_count(call, "kv_num_heads")), length, size};
  for (const std::size_t output : {1, 2}) call.set_shape(output, cache);
}

template <class A>
class GroupQuery {
 public:
  explicit GroupQuery(EvalCall& call) : call_(call) {
    split_operands();
    for (const Heads<A>* heads : {&key_, &value_}) {
      if (heads->batch != query_.batch || heads->length != query_.length || heads->size != query_.size) {
        throw Error("query, key and value do not fit together");
      }
    }
    read_lengths();
    if (call.integer("do_rotary") != 0) rotate();
    key_ = cached(call.has_input(3) ? &call.in(3) : nullptr, key_);
    value_ = cached(call.has_input(4) ? &call.in(4) : nullptr, value_);
  }

  void run() {
    check_heads(query_, key_, value_);
    const DType dtype = call_.in(0).dtype();
    Attended<A> result = attend(query_, attended(key_), attended(value_), rule());
    call_.out(0, packed_tensor(result.output, dtype));
    call_.out(1, tensor_of(key_, dtype));
    call_.out(2, tensor_of(value_, dtype));
    if (call_.has_output(3)) {
      const Dims dims{query_.batch, query_.heads, query_.length, total_};
      call_.out(3, from_elements<A>(dtype, dims, without_forbidden(std::move(result.scores))));
    }
  }

 private:
  std::int64_t batch_total(std::int64_t b) const { return totals_[static_cast<std::size_t>(b)]; }
  // Tokens of the cache before those of this call.
  std::int64_t batch_past(std::int64_t b) const { return first_prompt_ ? 0 : batch_total(b) - query_.length; }

  void split_operands() {
    const std::int64_t heads = head_count(call_, "num_heads"), shared = head_count(call_, "kv_num_heads");
    if (call_.has_input(1) != call_.has_input(2)) throw Error("key and value must be given together");
    require_rank(call_.in(0), "query", 3);
    if (call_.has_input(1)) {
      query_ = heads_of<A>(call_.in(0), heads, "query");
      key_ = heads_of<A>(call_.in(1), shared, "key");
      value_ = heads_of<A>(call_.in(2), shared, "value");
      return;
    }
    const Heads<A> all = heads_of<A>(call_.in(0), heads + 2 * shared, "packed query");
    query_ = some_heads(all, 0, heads);
    key_ = some_heads(all, heads, shared);
    value_ = some_heads(all, heads + shared, shared);
  }

  static Heads<A> some_heads(const Heads<A>& all, std::int64_t first, std::int64_t count) {
    Heads<A> result{all.batch, count, all.length, all.size, {}};
    for (std::int64_t b = 0; b < all.batch; ++b) {
      const auto from = all.values.begin() + static_cast<std::ptrdiff_t>(all.row(b, first, 0));
      result.values.insert(result.values.end(), from, from + count * all.length * all.size);
    }
    return result;
  }

  void read_lengths() {
    if (call_.in(6).size() != 1) throw Error("total_sequence_length is not one number");
    total_ = element_as_int(call_.in(6), 0);
    first_prompt_ = total_ == query_.length;
    const std::int64_t past = call_.has_input(3) && call_.in(3).rank() == 4 ? call_.in(3).dim(2) : 0;
    if (total_ > past + query_.length) {
      throw Error("total_sequence_length is " + std::to_string(total_) + ", more than past and new tokens");
    }
    totals_ = elements<std::int64_t>(call_.in(5));
    if (static_cast<std::int64_t>(totals_.size()) != query_.batch) throw Error("seqlens_k has not one entry per batch");
    for (std::int64_t& length : totals_) {
      ++length;
      const bool fits = length >= 1 && length <= total_ && (first_prompt_ || length >= query_.length);
      if (!fits)
        throw Error("seqlens_k has " + std::to_string(length - 1) + " for a total of " + std::to_string(total_));
    }
  }

  void rotate() {
    if (!call_.has_input(7) || !call_.has_input(8)) throw Error("do_rotary needs cos_cache and sin_cache");
    require_rank(call_.in(7), "cos_cache", 2);
    const RotaryTables<A> tables(call_.in(7), call_.in(8));
    std::vector<std::int64_t> ids;
    if (call_.has_input(9)) {
      if (call_.in(9).dims() != Dims{query_.batch, query_.length}) throw Error("position_ids has the wrong shape");
      ids = elements<std::int64_t>(call_.in(9));
    }
    const bool interleaved = call_.integer("rotary_interleaved") != 0;
    // Of the positions of a first prompt only the first counts, as in ONNX Runtime.
    const auto position = [&](std::int64_t b, std::int64_t i) {
      if (ids.empty()) return batch_past(b) + i;
      return first_prompt_ ? ids[0] + i : ids[static_cast<std::size_t>(b * query_.length + i)];
    };
    rotate_heads(query_, tables, interleaved, position);
    rotate_heads(key_, tables, interleaved, position);
  }

  // The cache with the new rows written behind each batch's past ones; unused rows are zero.
  Heads<A> cached(const Tensor* past, const Heads<A>& fresh) const {
    Heads<A> old{fresh.batch, fresh.heads, 0, fresh.size, {}};
    if (past != nullptr) {
      require_rank(*past, "past_key or past_value", 4);
      old = heads_of<A>(*past, 0, "past");
      if (old.batch != fresh.batch || old.heads != fresh.heads || old.size != fresh.size) {
        throw Error("past of shape " + to_string(past->dims()) + " does not fit the new keys and values");
      }
    }
    Heads<A> result{fresh.batch, fresh.heads, std::max(total_, old.length), fresh.size, {}};
    result.values.resize(
        static_cast<std::size_t>(element_count(Dims{result.batch, result.heads, result.length, result.size})));
    for (std::int64_t b = 0; b < fresh.batch; ++b) {
      const std::int64_t kept = batch_past(b);
      if (kept > old.length) throw Error("seqlens_k needs more past than there is");
      for (std::int64_t h = 0; h < fresh.heads; ++h) {
        copy_rows(old, b, h, kept, result, 0);
        copy_rows(fresh, b, h, fresh.length, result, kept);
      }
    }
    return result;
  }
  static void copy_rows(const Heads<A>& from, std::int64_t b, std::int64_t h, std::int64_t count, Heads<A>& to,
                        std::int64_t first) {
    if (count == 0 || from.size == 0) return;
    std::copy_n(from.values.begin() + static_cast<std::ptrdiff_t>(from.row(b, h, 0)), count * from.size,
                to.values.begin() + static_cast<std::ptrdiff_t>(to.row(b, h, first)));
  }

  // The rows of the cache that count: those up to the total length.
  Heads<A> attended(const Heads<A>& cache) const {
    Heads<A> result{cache.batch, cache.heads, total_, cache.size, {}};
    result.values.resize(static_cast<std::size_t>(cache.batch * cache.heads * total_ * cache.size));
    for (std::int64_t b = 0; b < cache.batch; ++b) {
      for (std::int64_t h = 0; h < cache.heads; ++h) copy_rows(cache, b, h, batch_total(b), result, 0);
    }
    return result;
  }

  // Scores as they are given out: 0 for keys that the query does not see.
  std::vector<A> without_forbidden(std::vector<A> scores) const {
    std::size_t at = 0;
    for (std::int64_t b = 0; b < query_.batch; ++b) {
      for (std::int64_t row = 0; row < query_.heads * query_.length; ++row) {
        for (std::int64_t j = 0; j < total_; ++j, ++at) {
          if (!allows(b, row % query_.length, j)) scores[at] = A{0};
        }
      }
    }
    return scores;
  }

  bool allows(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (j >= batch_total(b)) return false;
    if (!causal_) return true;
    const std::int64_t position = batch_past(b) + i;
    return j <= position && (window_ <= 0 || j > position - window_);
  }

  AttentionRule rule() {
    causal_ = call_.integer("causal") != 0;
    window_ = call_.integer("local_window_size");
    if (call_.has_input(10)) {
      bias_.emplace(call_.in(10), ScoreDims{query_.batch, query_.heads, query_.length, total_}, "attention_bias");
    }
    AttentionRule rule;
    rule.scale = call_.real("scale");
    if (rule.scale == 0) rule.scale = 1.0 / std::sqrt(static_cast<double>(query_.size));
    rule.scale_roots = false;
    rule.softcap = call_.real("softcap");
    if (call_.has_output(3)) rule.keep = kept_group_scores(call_);
    rule.bias = [this](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      if (!allows(b, i, j)) return -kInf;
      return bias_ ? bias_->at(b, h, i, j) : 0.0;
    };
    if (call_.has_input(11)) {
      sinks_ = elements<double>(call_.in(11));
      if (static_cast<std::int64_t>(sinks_.size()) != query_.heads) throw Error("head_sink has not one entry per head");
      rule.sink = [this](std::int64_t h) { return sinks_[static_cast<std::size_t>(h)]; };
    } else if (call_.integer("smooth_softmax") > 0) {
      rule.sink = [](std::int64_t) { return 0.0; };
    }
    return rule;
  }

  EvalCall& call_;
  Heads<A> query_, key_, value_;
  std::int64_t total_ = 0;
  bool first_prompt_ = false;
  bool causal_ = true;
  std::int64_t window_ = -1;
  std::vector<std::int64_t> totals_;
  std::optional<ScoreBias> bias_;
  std::vector<double> sinks_;
};

void eval_group_query(EvalCall& call) {
  refuse_unmodelled_cache(call);
  with_float_sum_type(call.in(0).dtype(), [&]<class A>() { GroupQuery<A>(call).run(); });
}

constexpr std::string_view kWideArithmetic = "all arithmetic in float32 (float64 for float64), rounded once";

const OpDef kOps[] = {
    {.identity =
         {.name = "RotaryEmbedding",
          .domain = kMicrosoft,
          .summary = "rotates pairs of features by angles that depend on the position",
          .signature = "(input: T, position_ids: int64, cos_cache: T, sin_cache: T) -> (output: T) where T: float",
          .attrs =
              "interleaved: int = 0; is_packed_batching: int = 0; num_heads: int = 0; rotary_embedding_dim: int = 0; "
              "scale: float = 1"},
     .meaning = {.infer = infer_same_shape, .eval = eval_rotary, .freedom = kWideArithmetic},
     .analysis = {.range = range_microsoft_rotary, .vjp = microsoft_rotary_gradient, .overflow = "FN204"}},
    {.identity =
         {.name = "GroupQueryAttention",
          .domain = kMicrosoft,
          .summary = "causal attention with a key-value cache, several query heads to one key head",
          .signature = "(query: T, key?: T, value?: T, past_key?: C, past_value?: C, seqlens_k: int32, "
                       "total_sequence_length: int32, cos_cache?: T, sin_cache?: T, position_ids?: int64, "
                       "attention_bias?: T, head_sink?: T, k_scale?: float32, v_scale?: float32, q_norm_weight?: T, "
                       "k_norm_weight?: T) -> (output: T, present_key?: T, present_value?: T, output_qk?: T) "
                       "where T: float, C: float | uint8 | int8",
          .attrs = "causal: int = 1; do_rotary: int = 0; k_quant_type: string = NONE; kv_cache_bit_width: int = 0; "
                   "kv_num_heads: int; local_window_size: int = -1; num_heads: int; qk_norm_epsilon: float = 1e-06; "
                   "qk_output: int = 0; rotary_interleaved: int = 0; scale: float = 0; sliding_window_cache: int = 0; "
                   "smooth_softmax: int = 0; softcap: float = 0; v_quant_type: string = NONE"},
     .meaning = {.infer = infer_group_query, .eval = eval_group_query, .freedom = kWideArithmetic},
     .analysis = {.range = range_group_query,
                  .vjp = group_query_gradient,
                  .hazards = group_query_hazards(),
                  .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> microsoft_cache_ops() { return kOps; }

}  // namespace finity
