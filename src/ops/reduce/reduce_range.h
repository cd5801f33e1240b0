// Range rules of the Reduce* ops, and of pools over everything, which are the same.
#pragma once

#include "ops/shared/range_groups.h"
#include "ops/table/range_call.h"

namespace finity {

void range_reduce_sum(RangeCall& call);
void range_reduce_mean(RangeCall& call);
void range_reduce_product(RangeCall& call);
void range_reduce_sum_square(RangeCall& call);
void range_reduce_l1(RangeCall& call);
void range_reduce_l2(RangeCall& call);
void range_reduce_log_sum(RangeCall& call);
void range_reduce_log_sum_exp(RangeCall& call);
void range_reduce_max(RangeCall& call);
void range_reduce_min(RangeCall& call);

// The axes that are reduced and whether they stay with size 1.
struct Reduced {
  AxisSet axes = {};
  bool keep = true;

  // The result broadcasts to the operand as it is.
  bool aligned() const;
};
// Operand 0 reduced as the node says, and how the result compares with that reduction of operand 0.
AbsTensor reduced_by_op(RangeCall& call, const GroupRange& f);
void add_reduction(RangeCall& call, AbsTensor& result, Of of, Order order);
// Nothing may be left along the axes: a size that is not known to be at least 1.
bool may_be_empty(const AbsTensor& x, const AxisSet& axes);
// A mean or a largest of nothing is FN306. Without `reduced`, anything may be reduced.
void ask_for_elements(RangeCall& call, const AbsTensor& x, const std::optional<Reduced>& reduced);
AbsTensor reduced_mean(RangeCall& call, const AbsTensor& x, const Reduced& reduced);
AbsTensor reduced_max(RangeCall& call, const AbsTensor& x, const Reduced& reduced);

// f in every format that partial sums may be carried in, joined.
Range in_all_carriers(const RangeCall& call, DType dtype, const std::function<Range(DType carrier)>& f);

}  // namespace finity
