// The derivative of pools over regions.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void roi_align_gradient(BuildCall& call);

}  // namespace finity
