// Gradients of Resize and Upsample: interpolation is linear in its operand.
#pragma once

namespace finity {

class BuildCall;

void resize_gradient(BuildCall& call);
void upsample_gradient(BuildCall& call);

}  // namespace finity
