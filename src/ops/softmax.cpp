#include "ops/families.h"

namespace finity {

std::span<const OpDef> softmax_ops() { return {}; }

}  // namespace finity
