// Where the engine on LibTorch is: a program beside finity's own, built when libtorch-dev is installed.
#pragma once

#include <optional>
#include <string>

#include "exec/worker.h"

namespace finity {

// Where a file in the folder of the running program would be; empty when that folder is not known.
std::string file_beside(const std::string& name);
// The path of a program in the folder of the running one; empty when there is none.
std::string program_beside(const std::string& name);

// How to start the engine; nothing when it was not built. Searches set limits of their own.
std::optional<WorkerOptions> torch_worker();

// For people when it was not built: why something cannot be done, and what is done instead.
inline constexpr std::string_view kNoTorchWorker =
    "the engine on LibTorch is not there (install libtorch-dev and build again)";
inline constexpr std::string_view kInsteadOfTorch = ": the reference is used, which is slower";

}  // namespace finity
