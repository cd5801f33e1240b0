// Range rules of ONNX Runtime's group norms of images. They do not follow from the ops' bodies: kernels of
// GroupNormalization are granted a difference of squares, and with that nothing is proved that is not spread out.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_image_group_norm(RangeCall& call);
void range_skip_group_norm(RangeCall& call);

}  // namespace finity
