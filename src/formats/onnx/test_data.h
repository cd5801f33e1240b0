// The test_data_set_* folders of ONNX's tests: input_0.pb, output_0.pb, ...
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

struct TestData {
  std::map<std::string, Datum, std::less<>> inputs;
  std::vector<Datum> outputs;  // in the order of the graph's outputs; absent where no file exists
};

// A name inside the file that is one of the graph's decides which value it is for, else the number in the file's name.
TestData read_test_data(const std::string& directory, const Graph& graph);

}  // namespace finity
