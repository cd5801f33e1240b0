// What ONNX Runtime's fused normalisations normalise: sums of their operands, as nodes that add in `format`.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

ValueId skip_layer_sum(BuildCall& call, DType format);
ValueId skip_rms_sum(BuildCall& call, DType format);  // it has no beta: its bias is input 3 instead of 4
ValueId embedding_sum(BuildCall& call, DType format);
ValueId skipped_images(BuildCall& call, DType format);

}  // namespace finity
