// What a TensorFlow graph says of how it is trained: optimiser ops give the variables that are trained, the rates and,
// through the gradients they apply, the loss; Assign ops give where variables start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace finity {

struct TensorFlowVariable {
  enum class Start : std::uint8_t { constant, uniform, normal, truncated_normal };

  std::string name = {};
  std::string loss = {};  // the node that it is trained to make small; "": it is not trained
  Start start = Start::constant;
  double lo = 0, hi = 0;  // all that its initialiser gives; the same number: everywhere. Infinite: not understood
};

struct TensorFlowTraining {
  std::vector<TensorFlowVariable> variables = {};
  std::string loss = {};       // of most variables
  std::string optimiser = {};  // "ApplyAdam": without "Resource"
  // Operands of the optimiser that are constants, in its order behind variable and slots; nothing for the others.
  std::vector<std::optional<double>> settings = {};
  std::optional<double> accumulator = {};  // what its sum of squares starts as
};

// Nothing for a graph without an optimiser. Throws Error naming node and reason when it has one but the loss is not
// found.
std::optional<TensorFlowTraining> tensorflow_training(std::string_view bytes, const std::string& name);

}  // namespace finity
