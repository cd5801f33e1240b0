// Gradients of reductions, and the pieces that gradients of norms, softmaxes and losses are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/movement/move_gradient.h"
#include "ops/table/build_call.h"
#include "ops/table/quantities.h"

namespace finity {

// ReduceSum or ReduceMean of `x` over the axes, which stay with size 1; no axes: nothing happens.
ValueId sum_over(BuildCall& call, ValueId x, const std::vector<std::int64_t>& axes);
ValueId mean_over(BuildCall& call, ValueId x, const std::vector<std::int64_t>& axes);
// The sum over the axes, which go away.
ValueId sum_away(BuildCall& call, ValueId x, const std::vector<std::int64_t>& axes);
ValueId unsqueeze(BuildCall& call, ValueId x, std::vector<std::int64_t> axes);
ValueId expand_like(BuildCall& call, ValueId x, ValueId like);
// How many elements of `x` there are for each one of `y`, as a number of the format; at least 1.
ValueId ratio_of_sizes(BuildCall& call, ValueId x, ValueId y, DType dtype);
// What flows to elements that equal the extreme: a part for each of them.
ValueId shared_among_extremes(BuildCall& call, ValueId x, ValueId extreme, ValueId gradient, ValueId axes);
// Y (dY - sum(dY Y)) and dY - exp(Y) sum(dY).
ValueId softmax_slope(BuildCall& call, ValueId y, ValueId gradient, const std::vector<std::int64_t>& axes);
ValueId log_softmax_slope(BuildCall& call, ValueId y, ValueId gradient, const std::vector<std::int64_t>& axes);

void reduce_sum_gradient(BuildCall& call);
void reduce_mean_gradient(BuildCall& call);
void reduce_product_gradient(BuildCall& call);
void reduce_sum_square_gradient(BuildCall& call);
void reduce_l1_gradient(BuildCall& call);
void reduce_l2_gradient(BuildCall& call);
void reduce_log_sum_gradient(BuildCall& call);
void reduce_log_sum_exp_gradient(BuildCall& call);
void reduce_extreme_gradient(BuildCall& call);

void softmax_gradient(BuildCall& call);
void log_softmax_gradient(BuildCall& call);

void top_k_gradient(BuildCall& call);
void running_sum_gradient(BuildCall& call);
void running_product_gradient(BuildCall& call);

}  // namespace finity
