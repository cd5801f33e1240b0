// Quantities of attention (quantities.h): scores must fit their format, and no row of them may be forbidden as a whole.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/attention/attention_attrs.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

// ---- scores ------------------------------------------------------------------------

// [batch, length, heads * size] as [batch, heads, length, size].
ValueId split_heads(BuildCall& call, ValueId value, std::int64_t heads) {
  return transposed(call, reshaped(call, value, {0, 0, heads, -1}), {0, 2, 1, 3});
}

ValueId as_heads(BuildCall& call, ValueId value, std::string_view heads) {
  return call.rank(value) == 3 ? split_heads(call, value, stated_heads(call, heads)) : value;
}

// Every head of keys, once for each query head that shares it.
ValueId repeated_heads(BuildCall& call, ValueId key, std::int64_t heads, std::int64_t times) {
  if (times <= 1) return key;
  const ValueId lone = call.add("Unsqueeze", {key, call.ints({2})});
  const ValueId repeated = call.add("Expand", {lone, call.ints({1, 1, times, 1, 1})});
  // [batch, heads, times, length, size]: the length comes from the operand.
  const ValueId flat = transposed(call, repeated, {0, 3, 4, 1, 2});
  return transposed(call, reshaped(call, flat, {0, 0, 0, heads * times}), {0, 3, 1, 2});
}

ValueId appended(BuildCall& call, ValueId past, ValueId key) {
  if (!past.valid()) return key;
  Attrs attrs;
  attrs.set("axis", std::int64_t{2});
  return call.add("Concat", {in_float64(call, past), key}, std::move(attrs));
}

std::int64_t last_size(const BuildCall& call, ValueId value) {
  const Type& type = call.type(value);
  const bool known = type.ranked && !type.shape.empty() && type.shape.back().known();
  if (!known) throw Unsupported("scores need the size of a head, which is not known");
  return type.shape.back().size;
}

// Queries times keys, both [batch, heads, length, size] in float64. A scale of 0 stands for 1 / sqrt(size).
ValueId scores_of(BuildCall& call, ValueId query, ValueId key, double scale) {
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(last_size(call, query), 1)));
  const ValueId products = call.add("MatMul", {query, transposed(call, key, {0, 1, 3, 2})});
  return call.product(products, call.scalar(scale, DType::float64));
}

std::int64_t head_count(const BuildCall& call, ValueId value) {
  const Type& type = call.type(value);
  if (!type.ranked || type.shape.size() != 4 || !type.shape[1].known()) {
    throw Unsupported("scores need the number of heads, which is not known");
  }
  return type.shape[1].size;
}

// ---- Attention ---------------------------------------------------------------------------

ValueId attention_scores(BuildCall& call) {
  const ValueId query = as_heads(call, in_float64(call, call.in(0)), "q_num_heads");
  ValueId key = as_heads(call, in_float64(call, call.in(1)), "kv_num_heads");
  key = appended(call, call.in(4), key);
  const std::int64_t shared = head_count(call, key);
  key = repeated_heads(call, key, shared, head_count(call, query) / std::max<std::int64_t>(shared, 1));
  return scores_of(call, query, key, score_scale(call).value_or(0));
}

// Over the largest number of the format, or of that in which the softmax is asked for.
ValueId attention_share(BuildCall& call) {
  double limit = overflow_limit(call.dtype());
  if (const DType asked = softmax_precision(call); asked != DType::undefined) {
    limit = std::min(limit, overflow_limit(asked));
  }
  return divided(call, attention_scores(call), limit);
}

// The op itself tells its scores after all masks, as output 3.
ValueId attention_peak(BuildCall& call) {
  Attrs attrs = call.attrs();
  attrs.set("qk_matmul_output_mode", std::int64_t{2});
  return reduced(call, "ReduceMax", call.add_all("Attention", call.inputs(), 4, std::move(attrs))[3], {-1});
}

constexpr Hazard kAttention[] = {
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_share, .quantity = attention_share},
    {.rule = "FN301", .operand = 3, .unsafe = unsafe_minus_infinity, .quantity = attention_peak}};

// ---- com.microsoft ---------------------------------------------------------------------------

ValueId columns(BuildCall& call, ValueId value, std::int64_t first, std::int64_t end) {
  return call.add("Slice", {value, call.ints({first}), call.ints({end}), call.ints({-1})});
}

// Queries, keys and values next to each other.
ValueId projection(BuildCall& call) {
  const ValueId products = call.add("MatMul", {in_float64(call, call.in(0)), in_float64(call, call.in(1))});
  return call.has_input(2) ? call.sum(products, in_float64(call, call.in(2))) : products;
}

ValueId projected_scores(BuildCall& call) {
  const std::int64_t heads = call.integer("num_heads");
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  const std::int64_t width = given.size() == 3 ? given[0] : last_size(call, call.in(1)) / 3;
  const ValueId all = projection(call);
  const ValueId query = split_heads(call, columns(call, all, 0, width), heads);
  ValueId key = split_heads(call, columns(call, all, width, 2 * width), heads);
  if (call.has_input(4)) key = appended(call, call.add("Gather", {call.in(4), call.scalar(0, DType::int64)}), key);
  return scores_of(call, query, key, call.real("scale"));
}

// Query or key of MultiHeadAttention, perhaps packed with others as [batch, length, heads, parts, size].
ValueId unpacked(BuildCall& call, ValueId value, std::int64_t part) {
  const ValueId wide = in_float64(call, value);
  if (call.rank(value) == 3) return split_heads(call, wide, call.integer("num_heads"));
  if (call.rank(value) == 4) return wide;
  Attrs attrs;
  attrs.set("axis", std::int64_t{3});
  return transposed(call, call.add("Gather", {wide, call.scalar(static_cast<double>(part), DType::int64)}, attrs),
                    {0, 2, 1, 3});
}

// One bias per element of all heads.
ValueId with_head_bias(BuildCall& call, ValueId heads, std::int64_t part) {
  if (!call.has_input(3)) return heads;
  const std::int64_t count = call.integer("num_heads"), size = last_size(call, heads);
  const ValueId own = columns(call, in_float64(call, call.in(3)), part * count * size, (part + 1) * count * size);
  return call.sum(heads, reshaped(call, own, {count, 1, size}));
}

ValueId multi_head_scores(BuildCall& call) {
  const ValueId query = with_head_bias(call, unpacked(call, call.in(0), 0), 0);
  const bool packed = !call.has_input(1);
  ValueId key = packed ? unpacked(call, call.in(0), 1) : unpacked(call, call.in(1), 0);
  // Keys that come in heads have their bias already.
  if (packed || call.rank(call.in(1)) != 4) key = with_head_bias(call, key, 1);
  return scores_of(call, query, appended(call, call.in(6), key), call.real("scale"));
}

// Masked keys get a lower score, not -Inf; only a bias can forbid.
template <ValueId (*Scores)(BuildCall&)>
ValueId biased_peak(BuildCall& call) {
  if (!call.has_input(5)) return harmless(call);
  return reduced(call, "ReduceMax", call.sum(Scores(call), in_float64(call, call.in(5))), {-1});
}

constexpr Hazard kMicrosoftAttention[] = {
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = projected_scores},
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = projection},
    {.rule = "FN301", .operand = 5, .unsafe = unsafe_minus_infinity, .quantity = biased_peak<projected_scores>}};
constexpr Hazard kMultiHead[] = {
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = multi_head_scores},
    {.rule = "FN301", .operand = 5, .unsafe = unsafe_minus_infinity, .quantity = biased_peak<multi_head_scores>}};

// Positions, rotation and the cache decide which keys a query meets: the op itself tells its scores, as output 3.
ValueId group_query_scores(BuildCall& call) {
  Attrs attrs = call.attrs();
  attrs.set("qk_output", std::int64_t{1});
  std::vector<ValueId> inputs = call.inputs();
  for (ValueId& input : inputs) {
    if (input.valid() && is_float(call.type(input).dtype)) input = in_float64(call, input);
  }
  return call.add_all("com.microsoft:GroupQueryAttention", std::move(inputs), 4, std::move(attrs))[3];
}

ValueId group_query_peak(BuildCall& call) {
  return call.has_input(10) ? reduced(call, "ReduceMax", group_query_scores(call), {-1}) : harmless(call);
}

// Forbidden keys have a score of -Inf, which is no overflow.
ValueId group_query_allowed(BuildCall& call) {
  const ValueId scores = group_query_scores(call);
  Attrs attrs;
  attrs.set("detect_positive", std::int64_t{0});
  return call.add("Where", {call.add("IsInf", {scores}, std::move(attrs)), harmless(call), scores});
}

constexpr Hazard kGroupQuery[] = {
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = group_query_allowed},
    {.rule = "FN301", .operand = 10, .unsafe = unsafe_minus_infinity, .quantity = group_query_peak}};

}  // namespace

Hazards attention_hazards() { return kAttention; }
Hazards microsoft_attention_hazards() { return kMicrosoftAttention; }
Hazards multi_head_hazards() { return kMultiHead; }
Hazards group_query_hazards() { return kGroupQuery; }

}  // namespace finity
