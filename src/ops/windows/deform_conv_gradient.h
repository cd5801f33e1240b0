// The derivative of deformable convolutions.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void deform_conv_gradient(BuildCall& call);

}  // namespace finity
