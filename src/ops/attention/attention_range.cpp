#include "ops/attention/attention_range.h"

#include <algorithm>
#include <cmath>

#include "tensor/convert.h"

namespace finity {

namespace {

double number(std::int64_t size) { return size >= 0 ? static_cast<double>(size) : kManyElements; }

// 1 / sqrt(size) of an unknown size is at most 1.
double largest_scale(const AttentionRange& attention) {
  if (attention.scale != 0) return attention.scale;
  return attention.head_size > 0 ? 1 / std::sqrt(static_cast<double>(attention.head_size)) : 1;
}

Range raw_scores(const RangeCall& call, const AttentionRange& attention) {
  const double most = number(attention.head_size);
  const double least = attention.head_size >= 0 ? most : 0;
  DotSum sum;
  add_products(sum, attention.query, attention.key, least, most);
  Range early;
  if (!attention.scale_roots) {
    for (const DType accumulator : call.accumulators(attention.dtype)) {
      early = join(early, partial_sums(call, accumulator, sum, most));
    }
  } else if (call.may(Way::scales_last)) {
    early = partial_sums(call, call.accumulators(attention.dtype).back(), sum, most);
  }
  scale(sum, largest_scale(attention));
  if (attention.scale == 0 && attention.head_size < 0) {
    sum.lo = std::min(sum.lo, 0.0);
    sum.hi = std::max(sum.hi, 0.0);
  }
  Range scores = rounded(call, attention.dtype, sum, most + 4);
  scores.pinf |= early.pinf;
  scores.ninf |= early.ninf;
  return outward(attention.dtype, scores);
}

bool unbounded(const Range& range) { return range.pinf || range.ninf || range.nan; }

// The sum of a query's weights: of n numbers e >= 0, each divided by their computed sum. Every addition is wrong by at
// most u times the final sum.
Range weight_total(const RangeCall& call, const AttentionRange& attention) {
  double error = 0;
  // With an unknown number of keys only sums in float32 are reckoned with, as softmax is computed everywhere.
  const DType wide = attention.dtype == DType::float64 ? DType::float64 : DType::float32;
  const double keys = attention.keys >= 0 ? number(attention.keys) : kLongestUnknownSum;
  for (const DType accumulator : call.accumulators(attention.dtype)) {
    error = std::max(error, (keys + 4) * unit_roundoff(attention.keys >= 0 ? accumulator : wide));
  }
  error += 2 * unit_roundoff(attention.dtype);
  double lost = keys * min_subnormal(attention.dtype);
  if (attention.softmax_type != DType::undefined) {
    error += (attention.softmax_type == attention.dtype ? 2 : 4) * unit_roundoff(attention.softmax_type);
    lost += keys * min_subnormal(attention.softmax_type);
  }
  return {.lo = attention.sink ? 0 : std::max(0.0, 1 - error - lost), .hi = 1 + error};
}

// softcap * tanh(score / softcap)
Range capped_scores(const RangeCall& call, const AttentionRange& attention, const Range& scores) {
  if (!(attention.softcap > 0)) return scores;
  const double cap = attention.softcap;
  Range result;
  if (scores.has_finite()) {
    result =
        from_bounds(attention.dtype, cap * std::tanh(scores.lo / cap), cap * std::tanh(scores.hi / cap), call.ulps());
  }
  if (scores.pinf) result = join(result, from_bounds(attention.dtype, cap, cap, 1));
  if (scores.ninf) result = join(result, from_bounds(attention.dtype, -cap, -cap, 1));
  result.nan |= scores.nan;
  return result;
}

// +Inf in a row is NaN, and so are NaN itself and a row of -Inf that no mask made.
bool poisons(const AttendedRange& scores) { return scores.biased.nan || scores.biased.pinf || scores.capped.ninf; }

}  // namespace

AttendedRange attend_range(RangeCall& call, const AttentionRange& attention) {
  AttendedRange result;
  result.raw = raw_scores(call, attention);
  const bool operands_bad = unbounded(attention.query) || unbounded(attention.key);
  if (!operands_bad) {
    call.site("FN204", 0, result.raw, unbounded(result.raw));
    result.raw = result.raw.has_finite() ? result.raw.finite() : any_finite(attention.dtype);
  }
  result.capped = capped_scores(call, attention, result.raw);
  result.biased = outward(attention.dtype, add(attention.dtype, result.capped, attention.bias));
  if (attention.softmax_type != DType::undefined && result.biased.has_finite()) {
    const Range narrow = from_bounds(attention.softmax_type, result.biased.lo, result.biased.hi);
    if (narrow.pinf || narrow.ninf) call.site("FN204", 0, result.biased, true);
  }
  result.may_forbid_all = attention.may_forbid_all;
  if (attention.mask != nullptr) {
    AbsTensor mask = *attention.mask;
    result.may_forbid_all |= mask.ranked && mask.rank() > 0 && mask.sizes.back() == 0;  // too short: forbids the rest
    if (!attention.mask_alone) mask = {.dtype = mask.dtype, .cells = {mask.hull()}};
    result.may_forbid_all |= may_forbid_row(mask, attention.dtype, result.capped);
  }
  if (attention.masked) call.site("FN301", attention.mask_operand, result.biased, result.may_forbid_all);
  result.total = weight_total(call, attention);
  result.total.nan = poisons(result);
  return result;
}

Range attended(const RangeCall& call, const AttentionRange& attention, const AttendedRange& scores,
               const Range& values) {
  if (values.is_empty()) return attention.keys < 1 ? point(0) : Range{};
  DotSum flags;
  add_products(flags, {.lo = 0, .hi = 1}, values, 0, 1);
  DotSum sum = values.has_finite() ? weighted_mean(scores.total.finite(), values) : DotSum{};
  sum.nan = flags.nan;
  sum.pinf = flags.pinf;
  sum.ninf = flags.ninf;
  Range result = rounded(call, attention.dtype, sum, number(attention.keys));
  result.nan |= scores.total.nan;
  if (scores.may_forbid_all || attention.keys < 1) result = join(result, point(0));
  return result;
}

AbsTensor attended_output(const RangeCall& call, const AttentionRange& attention, const AttendedRange& scores,
                          const AbsTensor& fresh, bool cached, const Type& type) {
  const bool cut = !cached && fresh.cut() && fresh.ranked && type.ranked && fresh.rank() == type.shape.size() &&
                   fresh.sizes.back() == type.shape.back().size && !fresh.cuts.back().empty();
  if (!cut) return uniform(type, attended(call, attention, scores, attention.value));
  AbsTensor result = uniform(type, Range{});
  const std::size_t last = fresh.rank() - 1;
  result.cuts.assign(fresh.rank(), {});
  result.cuts[last] = fresh.cuts[last];
  result.cells.clear();
  for (std::size_t block = 0; block < fresh.blocks(last); ++block) {
    std::vector<Extent> extents(fresh.rank());
    extents[last] = {fresh.block_start(last, block), fresh.block_start(last, block) + fresh.block_length(last, block)};
    result.cells.push_back(attended(call, attention, scores, hull_within(fresh, extents)));
  }
  simplify(result, call.max_cells());
  return result;
}

Range mask_bias(const AbsTensor& mask) {
  const Range hull = mask.hull();
  if (hull.is_empty()) return {.ninf = true};  // a mask that is too short forbids the rest
  if (mask.dtype != DType::boolean) return hull;
  Range bias;
  if (hull.hi >= 1) bias = point(0);
  bias.ninf = hull.may_be_zero();
  return bias;
}

bool may_forbid_row(const AbsTensor& mask, DType dtype, const Range& scores) {
  const bool is_bool = mask.dtype == DType::boolean;
  if (mask.hull().is_empty()) return true;
  const auto forbids = [&](const Range& cell) { return is_bool ? cell.may_be_zero() : add(dtype, scores, cell).ninf; };
  if (const RowBound* rows = find_rows(mask.relations, Of::largest); rows != nullptr && mask.ranked) {
    const bool along_keys = mask.rank() > 0 && rows->axes == 1U << (mask.rank() - 1);
    if (along_keys && !forbids(rows->in) && !rows->in.nan) return false;
  }
  if (!mask.ranked || mask.rank() == 0 || !mask.cut()) return forbids(mask.hull());
  const std::size_t last = mask.blocks(mask.rank() - 1);
  for (std::size_t row = 0; row < mask.cells.size(); row += last) {
    const auto first = mask.cells.begin() + static_cast<std::ptrdiff_t>(row);
    if (std::all_of(first, first + static_cast<std::ptrdiff_t>(last), forbids)) return true;
  }
  return false;
}

// ---- rotary positions ----------------------------------------------------------------

namespace {

// The largest |cos| + |sin| of one angle; Inf when it is not known.
double rotation_norm(RangeCall& call, std::size_t cos, std::size_t sin) {
  constexpr std::int64_t kMost = 1 << 24;
  const Tensor* c = call.value(cos, kMost);
  const Tensor* s = call.value(sin, kMost);
  if (c == nullptr || s == nullptr || c->dims() != s->dims() || !is_float(c->dtype())) return kInf;
  const std::vector<double> cosines = elements<double>(*c), sines = elements<double>(*s);
  double norm = 0;
  for (std::size_t i = 0; i < cosines.size(); ++i) norm = std::max(norm, std::abs(cosines[i]) + std::abs(sines[i]));
  return std::isnan(norm) ? kInf : norm;
}

}  // namespace

Range rotated_range(RangeCall& call, const Range& x, std::size_t cos, std::size_t sin) {
  const DType dtype = call.in(cos).dtype;
  const Range c = call.hull(cos), s = call.hull(sin);
  Range minus_s = negate(dtype, s);
  DotSum sum;
  add_products(sum, x, c, 1, 1);
  add_products(sum, x, join(s, minus_s), 1, 1);
  const double norm = rotation_norm(call, cos, sin);
  if (std::isfinite(norm) && x.has_finite()) {
    const double most = norm * x.magnitude();
    sum.lo = std::max(sum.lo, -most);
    sum.hi = std::min(sum.hi, most);
    sum.below = std::max(sum.below, -most);
    sum.above = std::min(sum.above, most);
    sum.magnitude = std::min(sum.magnitude, most);
  }
  return rounded(call, dtype, sum, 2);
}

void range_rotary(RangeCall& call) {
  const Range x = call.hull(0);
  Range result = x.is_empty() ? x : rotated_range(call, x, 1, 2);
  // Features behind the rotated ones stay.
  if (call.integer("rotary_embedding_dim", 0) != 0) result = join(result, x);
  call.out(0, result);
}

void range_microsoft_rotary(RangeCall& call) {
  const Range x = call.hull(0);
  Range result = x.is_empty() ? x : rotated_range(call, x, 2, 3);
  if (call.integer("rotary_embedding_dim", 0) != 0) result = join(result, x);
  call.out(0, result);
}

}  // namespace finity
