// How far the results of a library may be from the reference's, and the op cases as texts to change.
#pragma once

#include <string>
#include <vector>

#include "exec/protocol.h"
#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

// Empty when the result is the reference's within what is granted: the same bits for ops that every library computes
// alike; units in the last place for elementwise ones; for ops that add, as many roundings as there are elements
// that may have been added, relative to the largest result.
std::string difference(const Graph& graph, const NamedData& inputs, const Datum& actual, const Datum& expected);

// A file of cases with another dtype in place of float32.
std::string with_dtype(std::string text, const std::string& dtype);
// One text per case, each with the lines that say which operator sets there are.
std::vector<std::string> single_cases(const std::string& text);

}  // namespace finity
