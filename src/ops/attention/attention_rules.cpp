// Range rules of the attention ops: what queries, keys, values, masks and caches are,
// handed to attention_range.h.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/attention/attention_attrs.h"
#include "ops/attention/attention_range.h"
#include "ops/linear/matmul_range.h"

namespace finity {

namespace {

std::int64_t size_of(const RangeCall& call, std::size_t input, std::size_t axis) {
  const AbsTensor& x = call.in(input);
  return x.ranked && axis < x.rank() ? x.sizes[axis] : -1;
}

std::int64_t sum(std::int64_t a, std::int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

// An operand's elements, with those of a cache in front where there is one.
Range with_past(const RangeCall& call, const Range& fresh, std::size_t past) {
  return call.has_range(past) ? join(fresh, call.hull(past)) : fresh;
}

// Part `part` of `parts` along an axis.
Range part_of(const AbsTensor& x, std::size_t axis, std::int64_t part, std::int64_t parts) {
  if (!x.ranked || axis >= x.rank() || x.sizes[axis] < 0) return x.hull();
  const std::int64_t length = x.sizes[axis] / parts;
  std::vector<Extent> extents(axis + 1);
  extents[axis] = {part * length, (part + 1) * length};
  return hull_within(x, extents);
}

}  // namespace

// ---- Attention of the default domain -----------------------------------------------

namespace {

struct HeadSizes {
  std::int64_t length = -1, size = -1;
};

// Of [batch, heads, length, size], or [batch, length, heads * size].
HeadSizes head_sizes(const RangeCall& call, std::size_t input, std::string_view heads_attr) {
  const AbsTensor& x = call.in(input);
  if (!x.ranked || x.rank() < 3) return {};
  if (x.rank() == 4) return {x.sizes[2], x.sizes[3]};
  return {x.sizes[1], x.sizes[2] >= 0 ? x.sizes[2] / stated_heads(call, heads_attr) : -1};
}

// Whether something besides the mask can hide every key from a query.
bool frontier_forbids_all(const RangeCall& call, const Reach& reach, std::int64_t queries, std::int64_t fresh_keys) {
  if (call.has_range(6)) {
    // The number of keys that are not padding; without a cache it also shifts the positions of queries.
    if (reach.causal || reach.has_window()) return true;
    return !(call.hull(6).lo >= 1);
  }
  // A query sees its own position, counted from the end of a cache, unless it lies behind the last key.
  return reach.left >= 0 && !(queries >= 0 && fresh_keys >= 0 && queries <= fresh_keys);
}

void set_mask(const RangeCall& call, AttentionRange& attention, std::int64_t queries, std::int64_t fresh_keys) {
  const Reach reach = attention_reach(call);
  attention.bias = call.has_range(3) ? mask_bias(call.in(3)) : point(0);
  const bool frontier = reach.causal || reach.has_window() || call.has_range(6);
  attention.masked = call.has_range(3) || reach.has_window() || call.has_range(6);
  attention.may_forbid_all = frontier_forbids_all(call, reach, queries, fresh_keys);
  if (call.has_range(3)) {
    const AbsTensor& mask = call.in(3);
    attention.mask_operand = 3;
    attention.mask = &mask;
    // A short mask forbids the keys behind its end: all that a window to the left leaves to a late query.
    const bool is_short = !mask.ranked || mask.rank() == 0 || mask.sizes.back() != attention.keys;
    attention.may_forbid_all |= is_short && (reach.left >= 0 || call.has_range(6));
    attention.mask_alone = !frontier;
    attention.bias.ninf |= is_short;
  }
  attention.bias.ninf |= frontier;
}

Range scores_after(const AttendedRange& scores, int stage) {
  if (stage == 0) return scores.raw;
  if (stage < 3) return stage == 1 ? scores.capped : scores.biased;
  Range probabilities{.lo = 0, .hi = 1};
  probabilities.nan = scores.total.nan;
  return probabilities;
}

}  // namespace

void range_attention(RangeCall& call) {
  const HeadSizes query = head_sizes(call, 0, "q_num_heads"), key = head_sizes(call, 1, "kv_num_heads");
  AttentionRange attention;
  attention.dtype = call.in_dtype(0);
  attention.query = call.hull(0);
  attention.key = with_past(call, call.hull(1), 4);
  attention.value = with_past(call, call.hull(2), 5);
  attention.head_size = query.size >= 0 ? query.size : key.size;
  attention.keys = call.has_range(4) ? sum(size_of(call, 4, 2), key.length) : key.length;
  const std::optional<double> scale = score_scale(call);
  // Each side is scaled by its root; kernels take 0 for a scale that is not given.
  if (scale && !(*scale > 0)) throw Unsupported("a scale that is not positive means different things to libraries");
  attention.scale = scale.value_or(0);
  attention.softcap = call.real("softcap");
  attention.softmax_type = softmax_precision(call);
  set_mask(call, attention, query.length, key.length);
  const AttendedRange scores = attend_range(call, attention);
  call.out(0, attended_output(call, attention, scores, call.in(2), call.has_range(5), call.out_type(0)));
  call.out(1, attention.key);
  call.out(2, attention.value);
  if (call.has_output(3)) call.out(3, scores_after(scores, kept_scores(call)));
}

// ---- LinearAttention ---------------------------------------------------------------

namespace {

// Largest |element| of the state after each token, in exact arithmetic with room for rounding.
struct StateBound {
  double keys = 0;   // size of a key
  double key = 0;    // largest |key element|
  double value = 0;  //
  double decay = 1;  // largest factor of the state
  double beta = 0;   // of the delta rule
  bool delta = false;
  double room = 1;

  double after(double state) const {
    state *= decay;
    const double update = delta ? beta * (value + keys * state * key) : value;
    return (state + key * update) * room;
  }
};

// The limit over so many tokens; Inf when it grows without end.
double state_limit(const StateBound& bound, double first, double tokens) {
  constexpr int kMostSteps = 1 << 16;
  double state = first, largest = first;
  for (double step = 0; step < std::min<double>(tokens, kMostSteps); ++step) {
    const double next = bound.after(state);
    if (next == state) return largest;
    state = next;
    largest = std::max(largest, state);
    if (!(largest < 1e300)) return kInf;
  }
  return tokens <= kMostSteps ? largest : kInf;
}

StateBound state_bound(const RangeCall& call, std::int64_t key_size) {
  const std::string rule = call.text("update_rule");
  const DType dtype = call.in_dtype(0);
  StateBound bound;
  bound.keys = key_size >= 0 ? static_cast<double>(key_size) : kManyElements;
  bound.key = call.hull(1).magnitude();
  bound.value = call.hull(2).magnitude();
  bound.delta = rule == "delta" || rule == "gated_delta";
  if (call.has_range(4) && rule.starts_with("gated")) {
    const Range decay = call.hull(4);
    bound.decay = decay.has_finite() ? std::exp(decay.hi) * (1 + 16 * unit_roundoff(dtype)) : 1;
    if (decay.hi <= 0) bound.decay = std::min(bound.decay, 1.0);
  }
  if (call.has_range(5)) bound.beta = call.hull(5).magnitude();
  bound.room = 1 + (std::min(bound.keys, kLongestUnknownSum) + 8) * unit_roundoff(dtype);
  return bound;
}

}  // namespace

void range_linear_attention(RangeCall& call) {
  const std::int64_t width = size_of(call, 1, 2);
  const std::int64_t key_size = width >= 0 ? width / stated_heads(call, "kv_num_heads") : -1;
  const StateBound bound = state_bound(call, key_size);
  const double first = call.has_range(3) ? call.hull(3).magnitude() : 0;
  const std::int64_t length = size_of(call, 1, 1);
  const double state = state_limit(bound, first, length >= 0 ? static_cast<double>(length) : kManyElements);
  double scale = call.real("scale");
  if (scale == 0) scale = key_size > 0 ? 1 / std::sqrt(static_cast<double>(key_size)) : 1;
  const double sums = bound.keys * state * call.hull(0).magnitude() * bound.room;  // before they are scaled
  bool bad = false;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    const Range x = call.hull(i);
    bad |= x.nan || x.pinf || x.ninf;
  }
  const auto give = [&](std::size_t i, double magnitude, double before) {
    if (!call.has_output(i)) return;
    Range range = from_bounds(call.out_dtype(i), -magnitude, magnitude, 1);
    const bool overflows = range.pinf || !(before <= max_finite(call.out_dtype(i)));
    range.nan |= bad || overflows;
    range.pinf |= bad || overflows;
    range.ninf |= bad || overflows;
    call.out(i, range);
  };
  give(0, std::abs(scale) * sums, sums);
  give(1, state, state);
}

// ---- com.microsoft -------------------------------------------------------------------

namespace {

// Masked keys get a lower score, not -Inf; only a bias can forbid.
void set_microsoft_mask(const RangeCall& call, AttentionRange& attention, std::size_t mask, std::size_t bias) {
  Range added = point(0);
  if (call.has_range(mask)) added = join(added, point(call.real("mask_filter_value")));
  if (call.integer("unidirectional", 0) != 0) added = join(added, point(std::numeric_limits<float>::lowest()));
  attention.bias = added;
  if (!call.has_range(bias)) return;
  attention.bias = add(DType::float64, added, call.hull(bias));
  attention.masked = true;
  attention.mask_operand = static_cast<int>(bias);
  attention.mask = &call.in(bias);
}

// Queries, keys and values that a projection makes may overflow before anything else happens.
Range without_overflow(RangeCall& call, const Range& projected, bool operands_bad) {
  if (operands_bad) return projected;
  const bool overflow = projected.pinf || projected.ninf || projected.nan;
  call.site("FN204", 0, projected, overflow);
  return overflow && !projected.has_finite() ? any_finite(call.in_dtype(0)) : projected.finite();
}

struct Projected {
  Range query = {}, key = {}, value = {};
};

Projected project(RangeCall& call) {
  const std::optional<Weights> weights = weights_of(call, 1);
  const MatMulOperand input{{&call.in(0), nullptr, {}}, {}};
  const MatMulOperand columns{{&call.in(1), weights ? &*weights : nullptr, {}}, {}};
  Contracted product = matmul_sums(call, input, columns);
  if (call.has_range(2)) add_tensor(product.sums, call.in(2), 1);
  const std::int64_t width = size_of(call, 1, 1);
  Type type = Type::tensor(call.in_dtype(0));
  type.ranked = product.sums.ranked;
  for (const std::int64_t size : product.sums.sizes) type.shape.push_back(size >= 0 ? Dim::of(size) : Dim{});
  const AbsTensor rows = rounded(call, type, product.sums);
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  bool bad = false;
  for (const std::size_t i : {0, 1, 2}) {
    if (!call.has_range(i)) continue;
    const Range x = call.hull(i);
    bad |= x.nan || x.pinf || x.ninf;
  }
  const auto columns_of = [&](std::int64_t first, std::int64_t count) {
    Range hull = rows.hull();
    if (rows.ranked && rows.rank() == 3 && count >= 0) {
      const Extent extents[] = {{}, {}, {first, first + count}};
      hull = hull_within(rows, extents);
    }
    return without_overflow(call, outward(call.in_dtype(0), hull), bad);
  };
  const std::int64_t key = given.size() == 3 ? given[0] : width >= 0 ? width / 3 : -1;
  const std::int64_t value = given.size() == 3 ? given[2] : key;
  return {columns_of(0, key), columns_of(key, key), columns_of(2 * key, value)};
}

}  // namespace

void range_microsoft_attention(RangeCall& call) {
  const Projected projected = project(call);
  const std::int64_t heads = call.integer("num_heads");
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  const std::int64_t width = given.size() == 3 ? given[0] : size_of(call, 1, 1) >= 0 ? size_of(call, 1, 1) / 3 : -1;
  AttentionRange attention;
  attention.dtype = call.in_dtype(0);
  attention.query = projected.query;
  attention.key = with_past(call, projected.key, 4);
  attention.value = with_past(call, projected.value, 4);
  attention.head_size = width >= 0 && heads > 0 ? width / heads : -1;
  attention.keys = call.has_range(4) ? sum(size_of(call, 4, 3), size_of(call, 0, 1)) : size_of(call, 0, 1);
  attention.scale = call.real("scale");
  attention.scale_roots = false;
  set_microsoft_mask(call, attention, 3, 5);
  const AttendedRange scores = attend_range(call, attention);
  call.out(0, attended(call, attention, scores, attention.value));
  call.out(1, join(attention.key, attention.value));
}

void range_multi_head(RangeCall& call) {
  const std::int64_t heads = call.integer("num_heads");
  const DType dtype = call.in_dtype(0);
  const AbsTensor& query = call.in(0);
  const bool all_packed = !call.has_range(1);
  const bool key_packed = !all_packed && call.in(1).ranked && call.in(1).rank() == 5;
  AttentionRange attention;
  attention.dtype = dtype;
  attention.query = all_packed ? part_of(query, 3, 0, 3) : query.hull();
  if (all_packed) attention.key = part_of(query, 3, 1, 3), attention.value = part_of(query, 3, 2, 3);
  else if (key_packed) attention.key = part_of(call.in(1), 3, 0, 2), attention.value = part_of(call.in(1), 3, 1, 2);
  else attention.key = call.hull(1), attention.value = call.has_range(2) ? call.hull(2) : call.hull(1);
  const bool transposed = !all_packed && call.in(1).ranked && call.in(1).rank() == 4;
  if (call.has_range(3)) {
    const Range bias = call.hull(3);
    const auto biased = [&](const Range& x) { return outward(dtype, add(dtype, x, bias)); };
    attention.query = biased(attention.query);
    // Keys and values that come from a cache have theirs already; which ones do is told by ranks.
    const bool certain = all_packed || (call.in(1).ranked && !transposed);
    const Range key = biased(attention.key), value = biased(attention.value);
    if (!transposed) {
      attention.key = certain ? key : join(attention.key, key);
      attention.value = certain ? value : join(attention.value, value);
    }
  }
  attention.key = with_past(call, attention.key, 6);
  attention.value = with_past(call, attention.value, 7);
  const std::int64_t packed_size = all_packed ? size_of(call, 0, 4) : key_packed ? size_of(call, 1, 4) : -1;
  const std::int64_t width = all_packed ? -1 : size_of(call, 0, 2);
  attention.head_size = packed_size >= 0 ? packed_size : width >= 0 && heads > 0 ? width / heads : -1;
  const std::int64_t length = all_packed ? size_of(call, 0, 1) : size_of(call, 1, transposed ? 2 : 1);
  attention.keys = call.has_range(6) ? sum(size_of(call, 6, 2), length) : length;
  attention.scale = call.real("scale");
  attention.scale_roots = false;
  set_microsoft_mask(call, attention, 4, 5);
  const AttendedRange scores = attend_range(call, attention);
  const bool plain = !all_packed && !key_packed && !call.has_range(3) && call.has_range(2);
  if (plain) call.out(0, attended_output(call, attention, scores, call.in(2), call.has_range(7), call.out_type(0)));
  else call.out(0, attended(call, attention, scores, attention.value));
  call.out(1, attention.key);
  call.out(2, attention.value);
  call.out(3, scores.biased);
}

void range_group_query(RangeCall& call) {
  const bool quantised = call.text("k_quant_type") != "NONE" || call.text("v_quant_type") != "NONE" ||
                         call.has_range(12) || call.has_range(13) || call.has_range(14) || call.has_range(15);
  if (quantised) {
    for (std::size_t i = 0; i < call.output_count(); ++i) call.top(i);
    return;
  }
  const std::int64_t heads = call.integer("num_heads"), shared = call.integer("kv_num_heads");
  const bool packed = !call.has_range(1);
  const std::int64_t width = size_of(call, 0, 2);
  AttentionRange attention;
  attention.dtype = call.in_dtype(0);
  const std::int64_t parts = packed ? heads + 2 * shared : heads;
  attention.head_size = width >= 0 && parts > 0 ? width / parts : -1;
  const auto columns = [&](std::int64_t first, std::int64_t count) {
    const AbsTensor& x = call.in(0);
    if (!x.ranked || x.rank() != 3 || attention.head_size < 0) return x.hull();
    const Extent extents[] = {{}, {}, {first * attention.head_size, (first + count) * attention.head_size}};
    return hull_within(x, extents);
  };
  attention.query = packed ? columns(0, heads) : call.hull(0);
  attention.key = packed ? columns(heads, shared) : call.hull(1);
  attention.value = packed ? columns(heads + shared, shared) : call.hull(2);
  if (call.integer("do_rotary") != 0 && call.has_range(7) && call.has_range(8)) {
    for (Range* x : {&attention.query, &attention.key}) {
      *x = outward(attention.dtype, join(*x, rotated_range(call, *x, 7, 8)));
    }
  }
  // Rows of the cache that are not filled are zero.
  attention.key = join(with_past(call, attention.key, 3), point(0));
  attention.value = with_past(call, attention.value, 4);
  if (const auto total = call.ints(6); total && total->size() == 1) attention.keys = total->front();
  attention.scale = call.real("scale");
  attention.scale_roots = false;
  attention.softcap = call.real("softcap");
  attention.sink = call.has_range(11) || call.integer("smooth_softmax") > 0;
  attention.bias = point(0);
  if (call.has_range(10)) {
    attention.bias = call.hull(10);
    attention.masked = true;
    attention.mask_operand = 10;
    attention.mask = &call.in(10);
    attention.mask_alone = false;
  }
  AttendedRange scores = attend_range(call, attention);
  if (call.has_range(11))
    scores.total.nan |= call.hull(11).nan || call.hull(11).pinf;  // the sink is a score like others
  // A window may leave the queries of a short batch without keys.
  const Range output = attended(call, attention, scores, attention.value);
  call.out(0, join(output, point(0)));
  call.out(1, attention.key);
  call.out(2, join(attention.value, point(0)));
  call.out(3, join(join(scores.biased, {.lo = 0, .hi = 1}), point(0)));
}

}  // namespace finity
