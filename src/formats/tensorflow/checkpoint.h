// The variables of a SavedModel: variables/variables.index, a sorted table of names, and data files beside it. Which
// variable a name belongs to is told by the nodes that restore them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

// All tensors of a checkpoint with the path `prefix`, as views into its files. Those of a data file that is not there
// are left out, with a note. Throws Error naming the file.
std::unordered_map<std::string, ConstantPtr> read_checkpoint(const std::string& prefix, std::vector<Note>& notes);

// Gives the graph's variables their trained numbers where `directory` has a checkpoint.
void add_trained_weights(const std::string& directory, GraphDef& graph, std::vector<Note>& notes);

}  // namespace finity::tensorflow
