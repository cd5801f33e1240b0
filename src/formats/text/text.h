// The text form of a graph: what dumps, goldens and repros are written in. It
// prints and parses, and keeps everything the graph holds except constants
// above a size limit. The grammar is in docs/text-form.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace finity {

struct PrintOptions {
  std::int64_t max_elements = 64;  // constants with more are printed as {...}; -1: print all
};

// What a constant printed as {...} says when its elements are asked for.
inline constexpr std::string_view kElidedReason = "elements were elided in the text form";

std::string print_graph(const Graph& graph, const PrintOptions& options = {});
// Throws Error "file:line:column: reason".
Graph parse_graph(std::string_view text, std::string_view file_name);
// Whether a file that begins like this is the text form.
bool looks_like_text(std::span<const std::byte> head);

// "float32[2, 2] {1, 2, 3, 4}". NaN payloads are not kept.
std::string print_tensor(const Tensor& tensor);
// The same syntax; throws Error "line:column: reason".
Tensor parse_tensor(std::string_view text);

}  // namespace finity
