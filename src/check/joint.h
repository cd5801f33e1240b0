// The training step's graph: a model with the gradients of its loss behind it.
#pragma once

#include <string>
#include <vector>

#include "check/check_graph.h"
#include "gradient/gradient.h"

namespace finity {

struct JointGraph {
  Graph graph = {};
  Types types = {};
  std::string words = {};  // "gradient of 'loss' by 4 weights"
  std::vector<GradientStop> stops = {};
};

// Gradients by the float inputs and the weights (float initializers that are no single numbers), or by what
// Training::by names; they become outputs of the graph. Throws Error when the loss is not there, is no float, or has no
// gradient by any of them.
JointGraph with_backward_pass(const Graph& graph, const Types& types, const Training& training);

}  // namespace finity
