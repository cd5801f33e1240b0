#include "ops/families.h"

namespace finity {

std::span<const OpDef> string_ops() { return {}; }

}  // namespace finity
