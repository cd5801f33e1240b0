// What becomes of the states of loops, as their gradients need to know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/table/build_call.h"

namespace finity {

// One index of an axis per iteration, from the first or from the last on.
struct Walk {
  std::int64_t axis = 0;
  bool backward = false;
};

struct LoopParts {
  BodyId body = {};
  std::size_t first = 0;  // operand that holds the first state
  std::size_t states = 0;
  std::size_t first_input = 0;     // of the body that takes a state
  std::size_t first_output = 0;    // of the body that gives a state
  std::vector<Walk> inputs = {};   // scanned operands, behind the states
  std::vector<Walk> outputs = {};  // collected results, behind the states
};

// How a loop uses a state that is a sequence.
enum class ListUse : std::uint8_t {
  kept,   // every iteration finds the one that the loop began with
  grown,  // tensors are put into it, and nobody looks at it
  other
};

ListUse list_use(const BuildCall& call, const LoopParts& parts, std::size_t state);

// Only what has the same shape in all iterations can be kept for each. Scan demands it of its states anyway. A sequence
// cannot be kept, so its value must not matter, or never change.
bool has_steady_states(const BuildCall& call, const LoopParts& parts);

// How often a Loop runs its body, where that is certain.
std::optional<std::int64_t> known_iterations(const BuildCall& call, BodyId body);

}  // namespace finity
