// Small random graphs for testing the analysis: ordinary ops, and the idioms whose relations it knows (stable
// softmax, variance, guarded division, ...) with here and there another operand than the idiom wants.
#pragma once

#include <cstdint>
#include <string>

#include "check/contract.h"

namespace finity {

struct RandomModel {
  std::string text = {};  // of the graph, docs/text-form.md
  Contract contract = {};
};

// The same seed gives the same model.
RandomModel random_model(std::uint64_t seed);

}  // namespace finity
