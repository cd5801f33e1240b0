// How many classes an input chooses from, for who draws labels.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

// Of main inputs, by ValueId; -1: they choose from none. Floats that are cast are labels too, and so is what becomes
// rows with a single one, where a label outside is no row.
std::vector<std::int64_t> class_counts(const Graph& graph, const Types& types);

}  // namespace finity
