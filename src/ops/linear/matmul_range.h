// Range rules of matrix products. An operand is given with the order of its axes
// that makes it [..., rows, columns]; numpy's rules do the rest.
#pragma once

#include <span>
#include <vector>

#include "ops/linear/contract_range.h"

namespace finity {

using AxisOrder = std::vector<std::size_t>;
// 0, 1, 2, ...; with the last two exchanged when asked to.
AxisOrder matrix_order(std::size_t rank, bool transpose = false);

// Sizes of AbsTensor: a size of 1 gives way, -1 is unknown.
std::int64_t broadcast_size(std::int64_t a, std::int64_t b);

// The operands' sums of products. `right_addend`: one number per column of a known right operand.
struct MatMulOperand {
  ContractOperand operand = {};
  AxisOrder order = {};  // empty: as it is
};
Contracted matmul_sums(const RangeCall& call, MatMulOperand a, MatMulOperand b,
                       std::span<const double> right_addend = {});

void range_matmul(RangeCall& call);
void range_gemm(RangeCall& call);
void range_det(RangeCall& call);

// alpha * A' * B' + beta * C in `dtype`.
AbsTensor gemm_range(RangeCall& call);
// What overflowed is NaN once it is multiplied by 0.
void zero_times_overflow(AbsTensor& x);

}  // namespace finity
