// Models in the way of NNSmith (ASPLOS 2023): five ops around one placeholder, each put in behind a value that is there
// (forward) or in place of a placeholder (backward), sizes drawn by bins of powers of two. Legality and ordinary
// numbers come from the reference, where NNSmith has a solver and a search.
#pragma once

#include "fuzz/generate.h"

namespace finity::fuzz {

// Sample number `index`, a function of the seed and the number.
Generated nnsmith_sample(std::uint64_t seed, std::uint64_t index);

}  // namespace finity::fuzz
