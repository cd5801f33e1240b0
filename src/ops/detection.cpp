#include "ops/families.h"

namespace finity {

std::span<const OpDef> detection_ops() { return {}; }

}  // namespace finity
