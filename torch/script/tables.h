// Lowerings of attention, and of what makes numbers and new tensors.
#pragma once

#include "torch/script/call.h"

namespace finity {

std::span<const ScriptLowering> script_attention();
std::span<const ScriptLowering> script_numbers();

}  // namespace finity
