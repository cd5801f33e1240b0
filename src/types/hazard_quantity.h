// The quantity of a hazard at a node, as nodes of its graph: what a search evaluates, differentiates and walks with.
#pragma once

#include "ops/table/quantities.h"
#include "types/graph_writer.h"

namespace finity {

struct HazardQuantity {
  ValueId value = {};     // the operand itself, or what the added nodes compute
  UnsafeSet unsafe = {};  // of `value`; empty when the node's formats have no unsafe value
};

// Throws Unsupported with the reason when the graph does not say enough of the node (sizes, formats), and when the node
// lies in a body: nodes are added to the main graph.
HazardQuantity add_quantity(GraphWriter& writer, NodeId node, const Hazard& hazard);

}  // namespace finity
