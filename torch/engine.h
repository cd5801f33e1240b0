// The engine that the worker program hands to serve().
#pragma once

#include <cstdint>
#include <memory>

#include "exec/serve.h"

namespace finity {

// LibTorch hands float32 convolutions, pools and the like to oneDNN, or computes them itself.
enum class TorchKernels : std::uint8_t { usual, own };

// `script`: models run as TorchScript, rewritten for inference when they may be optimised.
std::unique_ptr<Engine> make_torch_engine(TorchKernels kernels = TorchKernels::usual, bool script = false);

}  // namespace finity
