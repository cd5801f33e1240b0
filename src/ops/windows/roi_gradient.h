// The derivative of pools over regions.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void max_roi_pool_gradient(BuildCall& call);
void roi_align_gradient(BuildCall& call);

}  // namespace finity
