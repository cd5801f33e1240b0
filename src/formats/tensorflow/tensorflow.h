// TensorFlow models: GraphDef, MetaGraphDef and SavedModel, binary or text, and graph models of TensorFlow.js. The
// content decides which it is. Functions are inlined, loops and conditionals become Loop and If, ops become those of
// the op table (lowering.h); what is not modelled stays a named unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace finity {

bool looks_like_tensorflow(std::span<const std::byte> file);

// A node as the file has it, in the graph or in one of its functions. What it becomes has the same Location::offset.
struct TensorFlowNode {
  std::string name = {};
  std::string op = {};
  std::uint64_t offset = 0;
  std::int64_t parameters = 0;  // elements of the variable that it holds
  bool in_function = false;     // which nobody may call
};
// Throws Error as reading does.
std::vector<TensorFlowNode> tensorflow_nodes(std::string_view bytes, const std::string& name);

// Throws Error "path: place: reason".
Graph read_tensorflow(const std::string& path, std::vector<Note>& notes);

// A file that is already in memory. The graph keeps a copy of it.
Graph read_tensorflow(std::string_view bytes, const std::string& name, std::vector<Note>& notes);

}  // namespace finity
