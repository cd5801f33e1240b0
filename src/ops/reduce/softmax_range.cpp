// With L = log(sum over the row of exp(x_j - x_i)), the element i is exp(-L) and its
// logarithm -L. L is smallest when x_i is as large and all others are as small as they
// can be, and largest the other way round. What floats add:
//
//   x_j - max      errs by u |x_j - max|, which is a relative error of the exponential
//   exp, log       RangeCall::ulps()
//   the sum        see sum_growth; it is never below its largest term, exp(0) = 1
#include "ops/reduce/softmax_range.h"

#include <algorithm>
#include <cmath>

#include "ops/reduce/reduce_range.h"
#include "ops/reduce/softmax_attrs.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// log(sum of exp(x_j - at)) over the group, where one element of part `own` is `at` itself: with the other elements at
// their upper ends and as many as possible, or at their lower ends and as few.
double log_total(const Group& group, std::size_t own, double at, bool upper) {
  std::vector<std::pair<double, double>> terms = {{0.0, 1.0}};  // exponent, how many
  double peak = 0;
  for (std::size_t i = 0; i < group.parts.size(); ++i) {
    const Part& part = group.parts[i];
    const double count = part.count * (upper ? group.most : group.least) - (i == own ? 1 : 0);
    // Elements that may be -Inf may add nothing.
    if (!(count > 0) || !part.each.has_finite() || (!upper && part.each.ninf)) continue;
    const double exponent = (upper ? part.each.hi : part.each.lo) - at;
    terms.emplace_back(exponent, count);
    peak = std::max(peak, exponent);
  }
  if (!std::isfinite(peak)) return peak;
  double sum = 0;
  for (const auto& [exponent, count] : terms) sum += count * std::exp(exponent - peak);
  return peak + std::log(sum);
}

}  // namespace

RowError row_error(const RangeCall& call, DType carrier, const Group& group) {
  const Range hull = group.hull();
  const double u = unit_roundoff(carrier);
  const double terms = group.most_count();
  const double width = hull.has_finite() ? hull.hi - hull.lo : 0;
  const double ulps = 2.0 * call.ulps() * u;
  RowError error;
  error.exponential = u * std::min(width, 1 - std::log(min_subnormal(carrier))) + ulps + 2 * u;
  error.shift = u * width;
  error.logarithm = ulps * std::log(terms + 1) + 4 * u;
  error.sum_low = std::min(terms * u, 1.0);
  error.sum_growth = sum_growth(carrier, terms);
  error.sum_overflow = terms * error.sum_growth > max_finite(carrier);
  return error;
}

namespace {

struct Special {
  bool nan = false, empty = false;
};

// +Inf - +Inf is NaN, and the whole row with it.
Special special_of(const Group& group) {
  Special special;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    special.nan |= part.each.nan || part.each.pinf;
    special.empty |= part.each.is_empty();
  }
  return special;
}

Range softmax_part(const RangeCall& call, DType dtype, DType carrier, const Group& group, std::size_t own) {
  const Range& x = group.parts[own].each;
  const RowError error = row_error(call, carrier, group);
  const double up = std::exp(-log_total(group, own, x.hi, false));
  const double down = std::exp(-log_total(group, own, x.lo, true));
  const double shift = (1 + error.exponential) / (1 - std::min(error.exponential, 0.5));
  double hi = 1;
  if (error.sum_low < 0.5) hi = std::min(1.0, up * shift / (1 - error.sum_low) + min_subnormal(carrier));
  double lo = down / shift / error.sum_growth;
  // Exponentials below the normal numbers may be anything down to zero, and so is what an infinite sum divides.
  const double least_term = std::exp(x.lo - group.hull().hi);
  if (least_term < 4 * min_normal(carrier) || lo < 4 * min_normal(carrier) || error.sum_overflow) lo = 0;
  const Range result = from_bounds(dtype, lo, std::max(lo, hi), 1);
  return {.lo = std::max(result.lo, 0.0), .hi = std::min(result.hi, 1.0)};
}

Range log_softmax_part(const RangeCall& call, DType dtype, DType carrier, const Group& group, std::size_t own) {
  const Range& x = group.parts[own].each;
  const RowError error = row_error(call, carrier, group);
  const double slack = error.shift + error.logarithm + error.exponential;
  double hi = 0;
  if (error.sum_low < 0.5) hi = std::min(0.0, -log_total(group, own, x.hi, false) + slack + 2 * error.sum_low);
  const double lo = -log_total(group, own, x.lo, true) - slack - std::log(error.sum_growth);
  Range result = from_bounds(dtype, std::min(lo, hi), hi, 1);
  result.hi = std::min(result.hi, 0.0);
  result.ninf |= error.sum_overflow;
  return result;
}

using PartRule = Range (*)(const RangeCall&, DType, DType, const Group&, std::size_t);

// `alone`: the only element of a row, exactly; `least`: what -Inf becomes.
struct RowRule {
  PartRule part = nullptr;
  double alone = 0;
  double least = 0;
};

Range row_part(const RangeCall& call, DType dtype, const Group& row, std::size_t part, const RowRule& rule) {
  const Special special = special_of(row);
  const Range& own = row.parts[part].each;
  if (special.empty || own.is_empty()) return {};
  const bool single = row.most_count() == 1;
  Range result;
  if (own.has_finite() && single) {
    result = point(rule.alone);
  } else if (own.has_finite()) {
    result = in_all_carriers(call, dtype, [&](DType carrier) { return rule.part(call, dtype, carrier, row, part); });
  }
  // The only element of a row is taken not to be -Inf.
  if (own.ninf && !single) result = join(result, point(rule.least));
  result.nan |= special.nan;
  // A largest element that NaN hides: what is subtracted may be anything.
  if (special.nan && call.may(Way::passes_over_nan)) result = join(result, any_finite(dtype));
  return result;
}

AbsTensor map_rows(const RangeCall& call, const AbsTensor& x, const AxisSet& axes, const RowRule& rule) {
  return mapped_groups(x, axes, x.dtype, [&](const Group& row) {
    std::vector<Range> result;
    for (std::size_t part = 0; part < row.parts.size(); ++part) {
      result.push_back(row_part(call, x.dtype, row, part, rule));
    }
    return result;
  });
}

// ---- rows of -Inf --------------------------------------------------------------

bool has_other_peak(const AbsTensor& x, const AxisSet& axes) {
  const auto bits = axis_bits(axes);
  return std::ranges::any_of(each<RowBound>(x.relations), [&](const RowBound& rows) {
    return rows.of == Of::largest && bits && (rows.axes & ~*bits) == 0 && !rows.in.ninf;
  });
}

void report_masked_rows(RangeCall& call, const AbsTensor& x, const AxisSet& axes, int operand) {
  bool possible = false;
  bool certain = true;
  for_each_group(x, axes, [&](const Group& group) {
    bool all = !group.surely_empty(), only = all;
    for (const Part& part : group.parts) {
      if (part.count == 0) continue;
      all &= part.each.ninf;
      only &= part.each.ninf && !part.each.has_finite() && !part.each.nan && !part.each.pinf;
    }
    possible |= all;
    certain &= only;
  });
  possible = possible && !has_other_peak(x, axes);
  call.site("FN301", operand, x.hull(), possible, possible && certain);
}

AxisSet row_axes(const Call& call, const AbsTensor& x) {
  return x.ranked ? read_softmax(call).axes(x.rank()) : AxisSet();
}

void add_rows(AbsTensor& result, const AxisSet& axes, Of of, double lo, double hi) {
  const auto bits = axis_bits(axes);
  if (!bits || !result.ranked || !(lo <= hi)) return;
  result.relations.push_back(RowBound{.axes = *bits, .of = of, .in = {.lo = lo, .hi = hi}});
}

// The quotients of a row by its computed sum add up to 1 within the error of that sum; each is rounded once more. The
// sum is inside one function: libraries carry it in float32 unless `--accumulate same` says otherwise. An addition of
// numbers >= 0 loses at most u times the final sum, so n terms are at most 1 + n u times what was computed.
void add_softmax_rows(const RangeCall& call, AbsTensor& result, const AxisSet& axes) {
  const auto bits = axis_bits(axes);
  if (!bits || !result.ranked) return;
  const DType carrier = call.accumulators(result.dtype).back();
  const double terms = std::max(1.0, result.most_count(*bits));
  const double u = unit_roundoff(carrier), growth = sum_growth(carrier, terms);
  const double lost = terms * min_subnormal(result.dtype);
  const double rounding = 4 * unit_roundoff(result.dtype) + 4 * u;
  if (!(terms * growth < max_finite(carrier))) return;
  const double low = std::max(0.0, (1 - rounding) / growth - lost);
  const double high = (1 + 2 * terms * u) * (1 + rounding) + lost;
  add_rows(result, axes, Of::sum, low, high);
  add_rows(result, axes, Of::largest, std::max(0.0, (1 - rounding) / (terms * growth) - lost), 1);
}

}  // namespace

AbsTensor softmax_range(RangeCall& call, const AbsTensor& x, const AxisSet& axes, int operand) {
  report_masked_rows(call, x, axes, operand);
  AbsTensor result = map_rows(call, x, axes, {softmax_part, 1, 0});
  add_softmax_rows(call, result, axes);
  return result;
}

AbsTensor log_softmax_range(RangeCall& call, const AbsTensor& x, const AxisSet& axes, int operand) {
  report_masked_rows(call, x, axes, operand);
  return map_rows(call, x, axes, {log_softmax_part, 0, -kInf});
}

void range_softmax(RangeCall& call) { call.out(0, softmax_range(call, call.in(0), row_axes(call, call.in(0)), 0)); }

void range_log_softmax(RangeCall& call) {
  call.out(0, log_softmax_range(call, call.in(0), row_axes(call, call.in(0)), 0));
}

// One 1 in every row, also where all elements are -Inf or NaN.
void range_hardmax(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const AxisSet axes = row_axes(call, x);
  const bool skips = call.may(Way::passes_over_nan) && x.hull().nan;  // no 1 in the row then
  AbsTensor result = mapped_groups(x, axes, x.dtype, [&](const Group& row) {
    const Range bit{.lo = row.most_count() == 1 && !skips ? 1.0 : 0.0, .hi = 1, .integer = true};
    std::vector<Range> result;
    for (const Part& part : row.parts) result.push_back(part.each.is_empty() ? Range{} : bit);
    return result;
  });
  if (!skips) {
    add_rows(result, axes, Of::sum, 1, 1);
    add_rows(result, axes, Of::largest, 1, 1);
  }
  call.out(0, std::move(result));
}

}  // namespace finity
