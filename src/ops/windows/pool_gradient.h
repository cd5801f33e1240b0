// Gradients of pools.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void max_pool_gradient(BuildCall& call);
void average_pool_gradient(BuildCall& call);
void lp_pool_gradient(BuildCall& call);
void global_max_pool_gradient(BuildCall& call);
void global_average_pool_gradient(BuildCall& call);
void global_lp_pool_gradient(BuildCall& call);
void max_unpool_gradient(BuildCall& call);

// Of the gradients themselves: what flows to what arrived at the windows.
void max_pool_second_gradient(BuildCall& call);
void average_pool_second_gradient(BuildCall& call);
void sum_pool_second_gradient(BuildCall& call);

}  // namespace finity
