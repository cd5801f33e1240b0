// Which layer follows which: random graphs with one source and one sink, before it is known what the layers are.
#pragma once

#include <vector>

#include "base/rng.h"

namespace finity::muffin {

// The vertices before each vertex, all smaller than it; -1: the source. The last vertex is the sink, and all others
// have a successor.
using Structure = std::vector<std::vector<int>>;

// A chain in which some vertices also feed later ones.
Structure chain_with_skips(int vertices, Rng& rng);
// Nine in ten edges go to the next vertex, the others anywhere later.
Structure cell(int vertices, Rng& rng);

}  // namespace finity::muffin
