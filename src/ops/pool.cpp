#include "ops/families.h"

namespace finity {

std::span<const OpDef> pool_ops() { return {}; }

}  // namespace finity
