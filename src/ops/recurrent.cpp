#include "ops/families.h"

namespace finity {

std::span<const OpDef> recurrent_ops() { return {}; }

}  // namespace finity
