// One step of LibTorch's own optimisers, with Keras' default parameters.
#pragma once

#include <string>

#include "exec/protocol.h"

namespace finity {

// `data` has a weight and its gradient in turn; the weights come back under their names. Throws Unsupported for an
// optimiser that LibTorch does not have.
NamedData optimiser_step(const std::string& name, const NamedData& data);

}  // namespace finity
