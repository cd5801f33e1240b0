#include "ops/attention/attention_gradient.h"

#include <cmath>

#include "base/error.h"
#include "domain/range.h"
#include "ops/attention/attention_attrs.h"
#include "ops/attention/head_nodes.h"
#include "ops/movement/move_gradient.h"
#include "ops/table/build_call.h"

namespace finity {

namespace {

// Operands of Attention.
enum Operand : std::size_t { query, key, value, mask, past_key, past_value, lengths };

class AttentionDefinition {
 public:
  explicit AttentionDefinition(BuildCall& call) : call_(call), packed_(call.rank(call.in(query)) == 3) {
    query_ = as_heads(query, "q_num_heads");
    key_ = appended(past_key, as_heads(key, "kv_num_heads"));
    value_ = appended(past_value, as_heads(value, "kv_num_heads"));
  }

  void give() {
    const ValueId raw = raw_scores();
    const double cap = call_.real("softcap");
    const ValueId capped =
        cap > 0 ? call_.product(call_.scalar(cap), call_.add("Tanh", {call_.quotient(raw, call_.scalar(cap))})) : raw;
    ValueId biased = capped;
    const ValueId bias = float_mask();
    if (bias.valid()) biased = call_.sum(capped, bias);
    const ValueId allowed = allowed_keys(bias);
    const ValueId weights = softmax(biased, allowed);
    const ValueId values = call_.cast(shared(value_), call_.type(weights).dtype);
    const ValueId output = call_.add("MatMul", {weights, values});
    const ValueId stages[] = {raw, capped, biased, weights};
    const std::vector<ValueId> results = {packed_ ? packed_heads(call_, output) : output, key_, value_,
                                          stages[static_cast<std::size_t>(kept_scores(call_))]};
    call_.give_through(results);
  }

 private:
  // [batch, heads, length, size]
  ValueId as_heads(std::size_t operand, std::string_view count) {
    const ValueId in = call_.in(operand);
    if (!packed_) return in;
    return split_heads(call_, in, stated_heads(call_, count));
  }

  ValueId appended(std::size_t past, ValueId fresh) {
    if (!call_.has_input(past)) return fresh;
    return call_.add("Concat", {call_.in(past), fresh}, with_attr("axis", std::int64_t{2}));
  }

  // Several query heads may share a head of keys and values.
  ValueId shared(ValueId heads) { return repeated_heads(call_, heads, size_of_axis(call_, query_, 1)); }

  ValueId raw_scores() {
    const double fallback = 1 / std::sqrt(static_cast<double>(size_of_axis(call_, query_, 3)));
    const ValueId root = call_.scalar(std::sqrt(score_scale(call_).value_or(fallback)));
    const ValueId keys = transpose(call_, shared(key_), {0, 1, 3, 2});
    return call_.add("MatMul", {call_.product(query_, root), call_.product(keys, root)});
  }

  // Keys beyond the last one that a mask speaks of are forbidden.
  ValueId whole_mask(ValueId short_one, ValueId forbidden) {
    const Type& type = call_.type(short_one);
    if (!type.ranked || type.shape.empty() || !type.shape.back().known()) return short_one;
    const Dim& keys = call_.type(key_).shape[2];
    if (!keys.known() || keys.size <= type.shape.back().size) return short_one;
    std::vector<std::int64_t> pads(2 * type.shape.size(), 0);
    pads.back() = keys.size - type.shape.back().size;
    return call_.add("Pad", {short_one, call_.ints(std::move(pads)), forbidden});
  }

  ValueId float_mask() {
    if (!call_.has_input(mask) || call_.in_type(mask).dtype == DType::boolean) return {};
    const DType dtype = call_.type(query_).dtype;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return whole_mask(call_.cast(call_.in(mask), dtype), call_.scalar(-kInfinity, dtype));
  }

  ValueId both(ValueId a, ValueId b) { return a.valid() ? call_.add("And", {a, b}) : b; }

  // What may be attended to, broadcast to the scores; invalid when that is everything.
  ValueId allowed_keys(ValueId bias) {
    ValueId allowed;
    if (bias.valid()) {
      const Attrs negative = with_attr("detect_positive", std::int64_t{0});
      allowed = call_.add("Not", {call_.add("IsInf", {bias}, negative)});
    } else if (call_.has_input(mask)) {
      allowed = whole_mask(call_.in(mask), call_.writer().constant(Tensor::scalar(false)));
    }
    const Reach reach = attention_reach(call_);
    if (!reach.causal && !reach.has_window() && !call_.has_input(lengths)) return allowed;
    const ValueId keys = counted_to(call_, length_of(call_, key_));
    const ValueId position = query_positions();
    const auto shifted = [&](std::int64_t by) {
      return call_.sum(position, call_.scalar(static_cast<double>(by), DType::int64));
    };
    if (reach.causal) allowed = both(allowed, call_.add("LessOrEqual", {keys, position}));
    if (reach.left >= 0) allowed = both(allowed, call_.add("GreaterOrEqual", {keys, shifted(-reach.left)}));
    if (reach.right >= 0) allowed = both(allowed, call_.add("LessOrEqual", {keys, shifted(reach.right)}));
    if (call_.has_input(lengths)) allowed = both(allowed, call_.add("Less", {keys, per_batch(call_.in(lengths))}));
    return allowed;
  }

  ValueId per_batch(ValueId numbers) { return reshape_to(call_, numbers, {-1, 1, 1, 1}); }

  // Absolute ones, as a column: behind the past, or at the end of what is not padding.
  ValueId query_positions() {
    const ValueId column = call_.add("Unsqueeze", {counted_to(call_, length_of(call_, query_)), call_.ints({1})});
    if (call_.has_input(past_key)) return call_.sum(column, length_of(call_, call_.in(past_key)));
    if (!call_.has_input(lengths)) return column;
    return call_.sum(column, per_batch(call_.difference(call_.in(lengths), length_of(call_, query_))));
  }

  // A query that may attend to nothing has no weights.
  ValueId softmax(ValueId scores, ValueId allowed) {
    const Attrs last = with_attr("axis", std::int64_t{-1});
    if (!allowed.valid()) return call_.add("Softmax", {scores}, last);
    const DType dtype = call_.type(scores).dtype;
    const ValueId lowest = call_.scalar(-max_finite(dtype), dtype);
    const ValueId weights = call_.add("Softmax", {call_.add("Where", {allowed, scores, lowest})}, last);
    return call_.add("Where", {allowed, weights, call_.scalar(0, dtype)});
  }

  BuildCall& call_;
  bool packed_;
  ValueId query_, key_, value_;
};

// ---- RotaryEmbedding -------------------------------------------------------

std::int64_t last_size(const BuildCall& call, ValueId value) {
  const Type& type = call.type(value);
  if (!type.ranked || type.shape.empty() || !type.shape.back().known()) {
    throw Unsupported("the gradient needs the size of a head, which is not known");
  }
  return type.shape.back().size;
}

std::vector<ValueId> split_last(BuildCall& call, ValueId value, std::vector<std::int64_t> sizes) {
  const std::size_t count = sizes.size();
  return call.add_all("Split", {value, call.ints(std::move(sizes))}, count, with_attr("axis", std::int64_t{-1}));
}

// [batch, length, pairs], the same for all heads.
ValueId angles(BuildCall& call, std::size_t table) {
  const ValueId rows = call.has_input(3) ? call.add("Gather", {call.in(table), call.in(3)}) : call.in(table);
  return call.add("Unsqueeze", {rows, call.ints({1})});
}

// Pairs of features turned by their angles: neighbours, or one of each half.
ValueId turned(BuildCall& call, ValueId features, std::int64_t pairs) {
  const bool neighbours = call.integer("interleaved") != 0;
  const ValueId cos = angles(call, 1), sin = angles(call, 2);
  const ValueId one = call.ints({-1});
  std::vector<ValueId> sides;
  if (neighbours) {
    sides = split_last(call, reshape_to(call, features, {0, 0, 0, pairs, 2}), {1, 1});
    for (ValueId& side : sides) side = call.add("Squeeze", {side, one});
  } else {
    sides = split_last(call, features, {pairs, pairs});
  }
  std::vector<ValueId> results = {call.difference(call.product(cos, sides[0]), call.product(sin, sides[1])),
                                  call.sum(call.product(sin, sides[0]), call.product(cos, sides[1]))};
  if (!neighbours) return call.add("Concat", std::move(results), with_attr("axis", std::int64_t{-1}));
  for (ValueId& side : results) side = call.add("Unsqueeze", {side, one});
  const ValueId both = call.add("Concat", std::move(results), with_attr("axis", std::int64_t{-1}));
  return reshape_to(call, both, {0, 0, 0, 2 * pairs});
}

ValueId rotated(BuildCall& call) {
  const bool packed = call.rank(call.in(0)) == 3;
  ValueId x = call.in(0);
  if (packed) x = split_heads(call, x, stated_heads(call, "num_heads"));
  const std::int64_t size = last_size(call, x);
  std::int64_t width = call.integer("rotary_embedding_dim");
  if (width == 0) width = size;
  ValueId result;
  if (width == size) {
    result = turned(call, x, width / 2);
  } else {
    const std::vector<ValueId> parts = split_last(call, x, {width, size - width});
    result = call.add("Concat", {turned(call, parts[0], width / 2), parts[1]}, with_attr("axis", std::int64_t{-1}));
  }
  return packed ? packed_heads(call, result) : result;
}

}  // namespace

void attention_gradient(BuildCall& call) {
  const DType asked = softmax_precision(call);
  if (asked != DType::undefined && info(asked).bits < info(call.in_type(query).dtype).bits) {
    throw Unsupported("weights that are rounded to a narrower format change in steps");
  }
  AttentionDefinition(call).give();
}

// Rotated back. Tables that want a gradient too need the definition.
void rotary_gradient(BuildCall& call) {
  if (call.wanted(1) || call.wanted(2)) return call.give_through(std::vector{rotated(call)});
  std::vector<ValueId> inputs = call.inputs();
  inputs[0] = call.grad(0);
  inputs[2] = call.add("Neg", {inputs[2]});
  call.give(0, call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front());
}

}  // namespace finity
