// Who reads a value.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace finity {

// By ValueId: a node once for every operand and for every value its bodies take from outside. An invalid node stands
// for the body whose output the value is.
using Users = std::vector<std::vector<NodeId>>;
Users users_of(const Graph& graph);

// How often the nodes of a body, what is inside them, and the body's outputs read each value.
std::vector<int> count_uses(const Graph& graph, const Body& body);

}  // namespace finity
