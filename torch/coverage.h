// Which ops the engine on LibTorch has, without LibTorch's headers.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ops/table/op.h"

namespace finity {

// "native", "moved", "host" (see TorchLowering::How), or "no".
std::string_view how_lowered(const OpDef& op);
// Domain and name of every entry.
std::vector<std::pair<std::string_view, std::string_view>> lowered_ops();

}  // namespace finity
