// Which results every library gives bit for bit. Sums in another order, library
// functions and roundings in between make the others differ in their last digits:
// what the reference computes for those is not what another program gets.
#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/datum.h"

namespace finity {

// True when no library can give other results than these for these operands.
bool folds_exactly(const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs);

}  // namespace finity
