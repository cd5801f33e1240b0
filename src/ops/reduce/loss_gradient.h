// Gradients of losses over class labels.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void likelihood_loss_gradient(BuildCall& call);
void cross_entropy_loss_gradient(BuildCall& call);

}  // namespace finity
