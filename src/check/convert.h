// The model as if it had been converted to another float format: what --as float16
// asks about. float32 and float64 tensors become the target; single nodes can be kept
// in their own format, with casts around them.
#pragma once

#include <set>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

using NodeSet = std::set<NodeId>;

struct Conversion {
  // Nodes, values and bodies have the ids and names they had; inserted casts and second copies of constants follow.
  Graph graph = {};
  NodeSet kept = {};             // in their own format: as asked, or because the op does not take the target
  std::vector<Note> notes = {};  // why the latter
};

// Inputs, constants (rounded when loaded), cast targets and dtype attributes become `target`; parameters that an op
// wants in float32 and elements of sequences and optionals stay. Ops that look at shapes only take what comes. An
// output of a kept node that is an output of the model is not cast. Nodes inside the bodies of a kept node are kept.
Conversion convert_floats(const Graph& graph, const Types& types, DType target, const NodeSet& keep = {});

// float32 and float64 (without the target) are what a conversion changes.
bool is_converted(DType dtype, DType target);

// The same elements rounded to another format, computed whenever they are loaded.
ConstantPtr rounded_constant(ConstantPtr source, DType target);

// The constant that a node without inputs states in its attributes, in its own dtype; null when it is not such a node.
ConstantPtr stated_constant(const Node& node);

}  // namespace finity
