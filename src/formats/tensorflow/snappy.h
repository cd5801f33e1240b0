// Blocks of checkpoints that are compressed with Snappy: literals, and copies of what was already written.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

// Throws Error when the block is damaged.
std::vector<std::byte> unpack_snappy(Bytes block);

}  // namespace finity::tensorflow
