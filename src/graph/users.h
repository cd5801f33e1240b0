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

// The values of enclosing bodies that the bodies named by a node's attributes use, each once. What is inside them must
// know its captures already.
std::vector<ValueId> captures_of(const Graph& graph, const Attrs& attrs);

}  // namespace finity
