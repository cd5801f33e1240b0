// The model of a LoadRequest as a graph, for engines that walk its nodes themselves.
#pragma once

#include <memory>
#include <string_view>

#include "graph/graph.h"

namespace finity {

// Copies the bytes. Throws Error when they are not an ONNX model.
std::shared_ptr<const Graph> received_model(std::string_view bytes);

}  // namespace finity
