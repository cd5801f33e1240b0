// Attributes of recurrent layers, read once for inference, evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <optional>
#include <string>

#include "ops/table/call.h"

namespace finity {

struct RecurrentAttrs {
  std::int64_t directions = 1;
  bool reverse = false;                     // the only direction runs from the end
  bool batch_first = false;                 // the batch is the first axis instead of the second (the third of Y)
  std::optional<std::int64_t> hidden = {};  // as it is stated
  bool coupled = false;                     // LSTM: forgets as much as it takes in
  bool linear_first = false;                // GRU: the recurrent product is computed before the reset

  bool runs_backward(std::int64_t direction) const { return direction == 1 || reverse; }
};

inline RecurrentAttrs read_recurrent(const Call& call) {
  const std::string direction = call.text("direction");
  RecurrentAttrs attrs{.directions = direction == "bidirectional" ? 2 : 1,
                       .reverse = direction == "reverse",
                       .batch_first = call.integer("layout", 0) != 0,
                       .coupled = call.integer("input_forget", 0) != 0,
                       .linear_first = call.integer("linear_before_reset", 0) != 0};
  if (call.has_attr("hidden_size")) attrs.hidden = call.integer("hidden_size");
  return attrs;
}

}  // namespace finity
