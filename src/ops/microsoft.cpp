#include "ops/families.h"

namespace finity {

std::span<const OpDef> microsoft_ops() { return {}; }

}  // namespace finity
