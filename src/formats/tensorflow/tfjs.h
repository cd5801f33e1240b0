// Graph models of TensorFlow.js: a GraphDef as JSON, and files with the numbers of its constants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

// Weights whose files are not there give constants with a type and without elements.
void read_tfjs(std::string_view json, const std::string& directory, GraphDef& graph, std::vector<Note>& notes);

}  // namespace finity::tensorflow
