// Ranges of softmax and log-softmax, for the ops of that name and those that contain one.
#pragma once

#include "ops/shared/range_groups.h"
#include "ops/table/range_call.h"

namespace finity {

void range_softmax(RangeCall& call);
void range_log_softmax(RangeCall& call);
void range_hardmax(RangeCall& call);

// Rows along `axes` of x, with relations. Reports rows that may be entirely -Inf (FN301, operand `operand` of the node)
// and then takes every row to have another element.
AbsTensor softmax_range(RangeCall& call, const AbsTensor& x, const AxisSet& axes, int operand);
AbsTensor log_softmax_range(RangeCall& call, const AbsTensor& x, const AxisSet& axes, int operand);

// How wrong the arithmetic of a row in one format can be.
struct RowError {
  double exponential = 0;  // relative, of each exp(x - max)
  double shift = 0;        // absolute, of x - max
  double logarithm = 0;    // absolute, of log(sum) for an exact sum
  double sum_low = 0;      // the computed sum is at least 1 - this of what its terms add up to
  double sum_growth = 1;   // and at most this times it
  bool sum_overflow = false;
};
RowError row_error(const RangeCall& call, DType carrier, const Group& group);

}  // namespace finity
