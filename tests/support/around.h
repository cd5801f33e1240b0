// Premises around concrete inputs: what a test runs with lies inside them.
#pragma once

#include "check/contract.h"
#include "exec/reference.h"

namespace finity {

// What may come besides the numbers.
struct Besides {
  bool pinf = false;
  bool ninf = false;
  bool nan = false;
};

// Each float element may be a little more than it is, and what `besides` says; integers stay what they are.
AbsTensor around(const Tensor& tensor, std::size_t max_cells, const Besides& besides = {});

// Inputs that are sequences, strings or not given keep the usual guess.
Premises premises_around(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells,
                         const Besides& besides = {});

}  // namespace finity
