// Sizes of axes that a model leaves open but does not take at any size: a spectrum wants at least one window of
// samples.
#pragma once

#include "base/rng.h"
#include "check/contract.h"
#include "types/infer.h"

namespace finity {

// For a model that the reference did not run on inputs of small sizes: the types with larger ones that it runs on, as
// they are when none of those that were tried is. For drawing only: no proof leans on them. Looks for `seconds` at
// most, and for as long as the thread's TimeLimit allows.
Types with_sizes_that_run(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, double seconds);

}  // namespace finity
