// When Dropout trains, read once for evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <optional>

#include "ops/table/call.h"

namespace finity {

// Up to opset 6 an attribute says that it does not train, from 12 on operand 2 says that it does; in between it never
// does. Nullopt: the operand decides.
inline std::optional<bool> stated_training(const Call& call) {
  if (call.version() < 7) return call.integer("is_test") == 0;
  if (!call.has_input(2)) return false;
  return std::nullopt;
}

}  // namespace finity
