#include <cmath>
#include <vector>

#include "base/error.h"
#include "domain/range.h"
#include "ops/attention/group_query.h"
#include "ops/attention/head_nodes.h"
#include "ops/attention/microsoft_attention_gradient.h"
#include "ops/movement/move_gradient.h"
#include "ops/table/build_call.h"

namespace finity {

namespace {

// Operands of GroupQueryAttention.
enum Operand : std::size_t {
  query,
  key,
  value,
  past_key,
  past_value,
  last_key,
  total_length,
  cos_cache,
  sin_cache,
  position_ids,
  attention_bias,
  head_sink
};

// Written out. Every batch has a length of its own: its new keys stand behind its own past ones.
class GroupQueryDefinition {
 public:
  explicit GroupQueryDefinition(BuildCall& call) : call_(call), dtype_(call.in_type(query).dtype) {
    split_operands();
    read_lengths();
    if (call.integer("do_rotary") != 0) rotate();
    key_ = cached(past_key, key_);
    value_ = cached(past_value, value_);
  }

  std::vector<ValueId> results() {
    const ValueId biased = scores();
    allowed_ = allowed_keys();
    const ValueId weights = softmax(biased);
    const ValueId mixed = call_.add("MatMul", {weights, seen(value_)});
    std::vector<ValueId> results = {packed_heads(call_, mixed), key_, value_};
    if (call_.has_output(3)) results.push_back(kept_group_scores(call_) == 2 ? where_allowed(biased) : weights);
    return results;
  }

 private:
  ValueId whole(std::int64_t number) { return call_.scalar(static_cast<double>(number), DType::int64); }
  ValueId reshaped(ValueId x, std::vector<std::int64_t> sizes) { return reshape_to(call_, x, std::move(sizes)); }
  ValueId counted(ValueId length) { return counted_to(call_, length); }

  void split_operands() {
    const std::int64_t heads = head_count(call_, "num_heads"), shared = head_count(call_, "kv_num_heads");
    if (call_.has_input(key)) {
      query_ = split_heads(call_, call_.in(query), heads);
      key_ = split_heads(call_, call_.in(key), shared);
      value_ = split_heads(call_, call_.in(value), shared);
      return;
    }
    const ValueId all = split_heads(call_, call_.in(query), heads + 2 * shared);
    const std::vector<ValueId> parts =
        call_.add_all("Split", {all, call_.ints({heads, shared, shared})}, 3, with_attr("axis", std::int64_t{1}));
    query_ = parts[0];
    key_ = parts[1];
    value_ = parts[2];
  }

  void read_lengths() {
    fresh_ = length_of(call_, query_);
    total_ = reshaped(call_.cast(call_.in(total_length), DType::int64), {});
    totals_ = reshaped(call_.sum(call_.cast(call_.in(last_key), DType::int64), whole(1)), {-1, 1});
    first_prompt_ = call_.add("Equal", {total_, fresh_});
    past_ = call_.add("Where", {first_prompt_, whole(0), call_.difference(totals_, fresh_)});
  }

  // [batch, length]. Of the positions of a first prompt only the first counts.
  ValueId positions() {
    const ValueId steps = counted(fresh_);
    if (!call_.has_input(position_ids)) return call_.sum(past_, steps);
    const ValueId first = call_.add("Gather", {reshaped(call_.in(position_ids), {-1}), whole(0)});
    return call_.add("Where", {first_prompt_, call_.sum(first, steps), call_.in(position_ids)});
  }

  void rotate() {
    Attrs attrs = with_attr("interleaved", call_.integer("rotary_interleaved"));
    attrs.set("rotary_embedding_dim", 2 * size_of_axis(call_, call_.in(cos_cache), 1));
    const ValueId places = positions();
    for (ValueId* heads : {&query_, &key_}) {
      *heads = call_.add("RotaryEmbedding", {*heads, call_.in(cos_cache), call_.in(sin_cache), places}, attrs);
    }
  }

  // The past rows that count, the fresh ones, then zeros, up to the length of the cache.
  ValueId cached(std::size_t past, ValueId fresh) {
    const std::int64_t heads = size_of_axis(call_, fresh, 1), size = size_of_axis(call_, fresh, 3);
    ValueId rows = call_.add("Pad", {fresh, call_.ints({0, 0, 0, 0, 0, 0, 1, 0})}), before = whole(0), length = total_;
    if (call_.has_input(past)) {
      before = length_of(call_, call_.in(past));
      length = call_.add("Max", {total_, before});
      rows = call_.add("Concat", {call_.cast(call_.in(past), dtype_), rows}, with_attr("axis", std::int64_t{2}));
    }
    const ValueId place = counted(length), behind = call_.sum(before, call_.difference(place, past_));
    const ValueId is_fresh = call_.add("Less", {place, call_.sum(past_, fresh_)});
    const ValueId new_row = call_.add("Where", {is_fresh, behind, call_.sum(before, fresh_)});
    const ValueId row = call_.add("Where", {call_.add("Less", {place, past_}), place, new_row});
    const ValueId everywhere =
        call_.add("Expand", {call_.add("Unsqueeze", {row, call_.ints({1, 3})}), call_.ints({1, heads, 1, size})});
    return call_.add("GatherElements", {rows, everywhere}, with_attr("axis", std::int64_t{2}));
  }

  // The cache up to the total length, for all heads of queries.
  ValueId seen(ValueId cache) {
    if (call_.has_input(past_key)) {
      cache = call_.add("Slice", {cache, call_.ints({0}), reshaped(total_, {1}), call_.ints({2})});
    }
    return repeated_heads(call_, cache, size_of_axis(call_, query_, 1));
  }

  ValueId scores() {
    double scale = call_.real("scale");
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size_of_axis(call_, query_, 3)));
    const ValueId keys = transpose(call_, seen(key_), {0, 1, 3, 2});
    ValueId result = call_.product(call_.add("MatMul", {query_, keys}), call_.scalar(scale, dtype_));
    if (const double cap = call_.real("softcap"); cap > 0) {
      const ValueId limit = call_.scalar(cap, dtype_);
      result = call_.product(limit, call_.add("Tanh", {call_.quotient(result, limit)}));
    }
    return call_.has_input(attention_bias) ? call_.sum(result, call_.in(attention_bias)) : result;
  }

  ValueId allowed_keys() {
    const ValueId keys = counted(total_);
    ValueId allowed = call_.add("Less", {keys, reshaped(totals_, {-1, 1, 1, 1})});
    if (call_.integer("causal") == 0) return allowed;
    const ValueId position = call_.add("Unsqueeze", {call_.sum(past_, counted(fresh_)), call_.ints({1, 3})});
    const auto also = [&](ValueId condition) { allowed = call_.add("And", {allowed, condition}); };
    also(call_.add("LessOrEqual", {keys, position}));
    if (const std::int64_t window = call_.integer("local_window_size"); window > 0) {
      also(call_.add("Greater", {keys, call_.difference(position, whole(window))}));
    }
    return allowed;
  }

  ValueId where_allowed(ValueId scores) { return call_.add("Where", {allowed_, scores, call_.scalar(0, dtype_)}); }

  // A sink takes part and belongs to no key. A query that may attend to nothing has no weights.
  ValueId softmax(ValueId biased) {
    const Attrs last = with_attr("axis", std::int64_t{-1});
    ValueId seen = call_.add("Where", {allowed_, biased, call_.scalar(-max_finite(dtype_), dtype_)});
    const bool sink = call_.has_input(head_sink) || call_.integer("smooth_softmax") > 0;
    const auto columns = [&](ValueId x, std::int64_t first, std::int64_t end) {
      return call_.add("Slice", {x, call_.ints({first}), call_.ints({end}), call_.ints({3})});
    };
    if (sink) {
      ValueId column = call_.zeros_like(columns(seen, 0, 1));
      if (call_.has_input(head_sink)) column = call_.sum(column, reshaped(call_.in(head_sink), {1, -1, 1, 1}));
      seen = call_.add("Concat", {seen, column}, last);
    }
    const ValueId weights = call_.add("Softmax", {seen}, last);
    return where_allowed(sink ? columns(weights, 0, -1) : weights);
  }

  BuildCall& call_;
  DType dtype_;
  ValueId query_, key_, value_;
  ValueId fresh_, total_;  // lengths
  ValueId totals_, past_;  // by batch, [batch, 1]
  ValueId first_prompt_;
  ValueId allowed_;  // which keys, broadcast to the scores
};

}  // namespace

void group_query_gradient(BuildCall& call) {
  refuse_unmodelled_cache(call);
  call.give_through(GroupQueryDefinition(call).results());
}

}  // namespace finity
