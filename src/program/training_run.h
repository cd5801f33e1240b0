// A training run as it happened, small enough to keep: the distinct samples, which of them made up each batch, and the
// seed of everything that was drawn. Whoever has the program can repeat it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

struct TrainingRun {
  std::uint64_t seed = 0;                      // of initial weights and draws
  std::map<std::string, Tensor> weights = {};  // that a search chose to start from
  std::map<std::string, Tensor> samples = {};  // by input: distinct samples, along the first axis; whole values where
                                               // the input has no batch
  // Per step and input, in the order of `inputs`, the rows of `samples`. The last step is only looked at, not trained.
  std::vector<std::string> inputs = {};
  std::vector<std::vector<std::vector<std::int32_t>>> steps = {};
  // The state at the last step: trained weights by name, and what was fed, draws included.
  std::map<std::string, Tensor> last_weights = {};
  std::map<std::string, Tensor> last_inputs = {};
};

}  // namespace finity
