// Gradients of ONNX Runtime's fused ops: through what they are defined by.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

// Through the op of the same name and attributes in the default domain.
void alias_gradient(BuildCall& call);
void expand_dims_gradient(BuildCall& call);
void microsoft_pad_gradient(BuildCall& call);
void gather_nd_gradient(BuildCall& call);
void loss_internal_gradient(BuildCall& call);
void scale_gradient(BuildCall& call);

}  // namespace finity
