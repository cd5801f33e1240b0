#include "ops/families.h"

namespace finity {

std::span<const OpDef> sequence_ops() { return {}; }

}  // namespace finity
