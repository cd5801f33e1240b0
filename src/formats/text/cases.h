// Files of many small op cases, for tests:
//
//   opset 17
//   case log_of_zero
//     y = Log(float32[3] {1, 0, -1})
//     expect float32[3] {0, -inf, nan}
//   case bad_axis
//     y = Softmax(float32[2, 2] {1, 2, 3, 4}) {axis = 5}
//     error "axis"
//
// A tensor literal as an operand becomes an input of the graph bound to that tensor, or with
// the word const before it an initializer. The outputs of the last node are the graph's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace finity {

struct OpCase {
  std::string name = {};
  int line = 0;
  Graph graph = {};
  std::vector<Tensor> inputs = {};    // one per input of the main body
  std::vector<Tensor> expected = {};  // one per output, unless an error is expected
  std::string error = {};             // part of the message that inference or evaluation must give
  double tolerance = 0;               // absolute and relative; 0: the same bits, any NaN for a NaN
};

// Throws Error "file:line:column: reason".
std::vector<OpCase> parse_cases(std::string_view text, std::string_view file_name);

}  // namespace finity
