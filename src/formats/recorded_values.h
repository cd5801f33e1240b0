// Tensors that another program recorded while it ran a model, to be compared with
// what is known of the model's values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

// Of one run of the model.
struct RecordedValues {
  std::string where = {};  // file or folder
  std::vector<std::pair<std::string, Datum>> values = {};
};

// An .npz file, a folder of TensorProto files, or a folder of .npz files and test_data_set_* folders: one run each. The
// name in a TensorProto says which value it is; input_K.pb and output_K.pb without a name of the model go by their
// number. Throws Error naming the file.
std::vector<RecordedValues> read_recorded(const std::string& path, const Graph& graph);

}  // namespace finity
