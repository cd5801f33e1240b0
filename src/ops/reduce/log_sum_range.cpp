// Logarithms of sums: ReduceLogSum, ReduceLogSumExp.
#include <algorithm>
#include <cmath>

#include "ops/reduce/reduce_range.h"
#include "ops/reduce/softmax_range.h"
#include "tensor/float_formats.h"

namespace finity {

// ---- ReduceLogSum --------------------------------------------------------------

namespace {

// The sum itself must be positive: what of it is not is reported once, and then taken not to happen.
Range log_of_sum(const RangeCall& call, DType dtype, DType carrier, const Range& sum) {
  Range positive = sum;
  positive.ninf = false;
  positive.lo = std::max(sum.lo, is_float(dtype) ? min_subnormal(carrier) : 1.0);
  if (!positive.has_finite()) {
    positive.lo = kInf;
    positive.hi = -kInf;
  }
  if (is_float(dtype)) return increasing(dtype, positive, std::log, call.ulps());
  // The logarithm of zero has no integer to be stored as.
  if (!(sum.lo > 0)) return any_finite(dtype);
  return from_bounds(dtype, std::trunc(std::log(positive.lo)), std::trunc(std::log(positive.hi)));
}

}  // namespace

void range_reduce_log_sum(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  Range sums;
  call.out(0, reduced_by_op(call, [&](const Group& group) {
             return in_all_carriers(call, dtype, [&](DType carrier) {
               const Range sum = group_sum(carrier, carrier, group);
               sums = join(sums, sum);
               return log_of_sum(call, dtype, carrier, sum);
             });
           }));
  const bool possible = sums.ninf || (sums.has_finite() && !(sums.lo > 0));
  const bool certain = possible && !sums.pinf && !sums.nan && !(sums.hi > 0);
  call.site("FN102", 0, sums, possible, certain);
}

// ---- ReduceLogSumExp -----------------------------------------------------------

namespace {

// log(sum of exp) in real numbers, the elements at one of their ends; -Inf when there is none.
double log_sum_end(const Group& group, bool upper) {
  double peak = -kInf;
  const auto end = [&](const Part& part) {
    if (part.count == 0 || !part.each.has_finite() || (!upper && part.each.ninf)) return -kInf;
    return upper ? part.each.hi : part.each.lo;
  };
  for (const Part& part : group.parts) peak = std::max(peak, end(part));
  if (peak == -kInf) return peak;
  double sum = 0;
  for (const Part& part : group.parts) {
    sum += part.count * (upper ? group.most : group.least) * std::exp(end(part) - peak);
  }
  return peak + std::log(sum);
}

// The largest element that every row has at least.
double least_peak(const Group& group) {
  double peak = -kInf;
  for (const Part& part : group.parts) {
    if (part.count > 0 && part.each.has_finite() && !part.each.ninf) peak = std::max(peak, part.each.lo);
  }
  return peak > -kInf ? peak : group.hull().lo;
}

// Kernels that do not subtract the largest element: none at all, or 0 at least where the first is -Inf. Exponentials of
// very low elements keep few digits or none, and the logarithm of a sum of nothing is -Inf.
struct LostSums {
  bool possible = false;
  Range seen = {};

  Range look_at(const RangeCall& call, DType dtype, DType carrier, const Group& group, Range result) {
    if (!result.has_finite()) return result;
    const bool narrow = dtype == DType::float16 || dtype == DType::bfloat16;
    const bool any = call.settings().runtime == Runtime::any;
    const bool plain = call.may(Way::no_shift) && (narrow || any);
    const DType inner = any || !narrow ? dtype : DType::float32;
    if (plain && !(log_sum_end(group, true) < std::log(max_finite(inner)) - 0.01)) result.pinf = true;
    if (plain) drop_low(dtype, inner, group, result);
    if (call.may(Way::starts_from_zero) && group.hull().ninf) drop_low(dtype, carrier, group, result);
    return result;
  }

 private:
  void drop_low(DType dtype, DType inner, const Group& group, Range& result) {
    const double least_kept = std::log(std::ldexp(1.0, float_format(inner).min_exponent));
    if (least_peak(group) >= least_kept) return;
    possible = true;
    seen = join(seen, group.hull());
    const double hi = result.hi < least_kept ? std::min(result.hi + 1, least_kept) : result.hi;
    const Range ends = from_bounds(dtype, result.lo - std::log(group.most_count() + 1) - 1, hi, 1);
    result.lo = ends.lo;
    result.hi = ends.hi;
  }
};

Range log_sum_exp(const RangeCall& call, DType dtype, DType carrier, const Group& group) {
  if (group.surely_empty()) return {.ninf = true};
  Range special;
  bool empty = false;
  special.ninf = true;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    empty |= part.each.is_empty();
    special.nan |= part.each.nan;
    special.pinf |= part.each.pinf;
    special.ninf &= part.each.ninf;
  }
  if (empty) return {};
  if (!group.hull().has_finite()) return special;
  if (!is_float(dtype)) carrier = DType::float64;
  const RowError error = row_error(call, carrier, group);
  const double slack = error.exponential + error.logarithm;
  const double peak = least_peak(group);
  const double hi = log_sum_end(group, true) + slack + std::log(error.sum_growth);
  double lo = peak;
  if (error.sum_low < 0.5) lo = std::max(peak, log_sum_end(group, false) - slack - 2 * error.sum_low);
  if (!is_float(dtype)) return from_bounds(dtype, std::trunc(lo), std::trunc(hi));
  Range result = from_bounds(dtype, lo, std::max(lo, hi), 1);
  // Rounding does not go below an element.
  if (result.has_finite()) result.lo = std::max(result.lo, peak);
  result.pinf |= error.sum_overflow || special.pinf;
  result.ninf |= special.ninf;
  result.nan |= special.nan;
  return result;
}

}  // namespace

void range_reduce_log_sum_exp(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  LostSums lost;
  AbsTensor result = reduced_by_op(call, [&](const Group& group) {
    return in_all_carriers(call, dtype, [&](DType carrier) {
      const Range each = log_sum_exp(call, dtype, carrier, group);
      return is_float(dtype) ? lost.look_at(call, dtype, carrier, group, each) : each;
    });
  });
  if (call.may(Way::starts_from_zero) && is_float(dtype)) call.site("FN102", 0, lost.seen, lost.possible);
  if (is_float(dtype) && !lost.possible) add_reduction(call, result, Of::largest, Order::at_least);
  call.out(0, std::move(result));
}

}  // namespace finity
