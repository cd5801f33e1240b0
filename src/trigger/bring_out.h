// A value inside a branch or a loop as a result of the main body, so that distances and slopes can be computed of it:
// all that it was, however often its body ran.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

struct BroughtOut {
  Graph graph = {};  // ids are those of the graph it comes from; what was added follows
  Types types = {};
  ValueId value = {};
};

// `id` as nodes of `body` see it: a vector where the body is a branch, one more axis for every loop. `unhurt` stands
// for it where another branch is taken. Nothing when the body belongs to an op that gives nothing out, or its types do
// not fit.
std::optional<BroughtOut> brought_out(const Graph& graph, const Types& types, const Bindings& bindings, ValueId id,
                                      BodyId body, double unhurt);

}  // namespace finity
