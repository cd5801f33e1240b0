// Range rules of ONNX Runtime's fused normalisations.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_skip_layer_norm(RangeCall& call);
void range_skip_rms_norm(RangeCall& call);
void range_embed_layer_norm(RangeCall& call);
void range_image_group_norm(RangeCall& call);
void range_skip_group_norm(RangeCall& call);

}  // namespace finity
