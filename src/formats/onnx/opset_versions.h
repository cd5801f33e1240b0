// Which operator set came with which version of the file format, and what needs
// which version of the format.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace finity::onnx {

inline constexpr int kNewestIr = 14;
inline constexpr int kFunctionsIr = 8;
inline constexpr int kOpsetsIr = 3;  // before it, a model had no operator set imports and meant version 1

// The newest default-domain operator set released while `ir` was the current version.
int opset_of_ir(std::int64_t ir);
// The oldest IR version released with that operator set; at least the first one that has imports.
int ir_of_opset(int opset);

// The lowest IR version that has all element types and kinds of values in the graph.
int required_ir(const Graph& graph);

}  // namespace finity::onnx
