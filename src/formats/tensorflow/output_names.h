// The results of ops by name, as functions use them ("TopKV2:indices:0"), and the types a file declares for the results
// of ops it brings along.
#pragma once

#include <string_view>
#include <vector>

#include "formats/tensorflow/graph_def.h"
#include "graph/type.h"

namespace finity::tensorflow {

// The number of the first result called `name`; 0 when the op is not known to have several.
int first_output(const GraphDef& graph, const NodeDef& node, std::string_view name);

// The dtypes of all results, as far as the file's own list of ops tells; empty when it does not.
std::vector<DType> output_dtypes(const GraphDef& graph, const NodeDef& node);

}  // namespace finity::tensorflow
