// Gradients through quantised numbers: integers have none, so what flows goes to the floats beside them.
#pragma once

namespace finity {

class BuildCall;

// Of the scale. An integer operand has no gradient.
void dequantize_gradient(BuildCall& call);
// Of the scales of GatherBlockQuantized.
void gather_blocks_gradient(BuildCall& call);

}  // namespace finity
