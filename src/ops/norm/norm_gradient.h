// Gradients of normalisations. All are written from the inverse deviation, computed again, as the kernels of the
// frameworks do.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void layer_norm_gradient(BuildCall& call);
void rms_norm_gradient(BuildCall& call);
void group_norm_gradient(BuildCall& call);
void batch_norm_gradient(BuildCall& call);
void instance_norm_gradient(BuildCall& call);
void mean_variance_norm_gradient(BuildCall& call);
void lp_norm_gradient(BuildCall& call);
void local_response_norm_gradient(BuildCall& call);

}  // namespace finity
