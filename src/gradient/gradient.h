// Derivatives as graphs: the nodes that compute the gradient of a scalar are added behind the graph they come from, so
// everything that works on graphs works on them too. A derivative that is undefined at some point (the root at 0) is
// then a division by zero like any other, which the checker sees and a search can walk to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "types/graph_writer.h"
#include "types/infer.h"

namespace finity {

// A node through which no gradient could be followed, and why.
struct GradientStop {
  NodeId node = {};
  std::string reason = {};
};

struct GradientResult {
  std::vector<ValueId> of = {};  // by wanted value; invalid where the output does not depend on it
  std::vector<GradientStop> stops = {};
};

// Adds the gradient of `output` (of the sum of its elements, if it has several) with respect to `wanted`: inputs,
// weights or other values of the main graph. What flows through a node without a derivative rule is left out and named
// in `stops`.
GradientResult add_gradient(GraphWriter& writer, ValueId output, std::span<const ValueId> wanted);

}  // namespace finity
