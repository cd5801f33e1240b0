// Training programs on LibTorch: the graph is planned once, weights stay tensors of LibTorch, and only batches and
// their derivatives cross the border.
#pragma once

#include <memory>

#include "program/engine.h"

namespace finity {

// `program` must outlive the engine.
std::unique_ptr<TrainingEngine> make_torch_training(const Program& program);

}  // namespace finity
