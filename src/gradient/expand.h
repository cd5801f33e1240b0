// ONNX's Gradient op asks for derivatives inside a model. It has no arithmetic of its own: analyses and runs see the
// nodes that compute them instead.
#pragma once

#include "graph/graph.h"

namespace finity {

// The graph with every Gradient node of the main body written out; the same graph when there is none. One whose
// derivative is not known, or that asks for it at another point than the graph computes, stays as it is: an operator
// that is not modelled.
Graph with_gradients_written_out(Graph graph);

}  // namespace finity
