// Backward passes in operators that every library has: the gradients of convolutions and poolings, for which the op
// table has ops of its own, become transposed convolutions, gathers and products.
#pragma once

#include "fuzz/sample.h"

namespace finity::fuzz {

// What cannot be written stays as it is.
Sample with_public_steps(const Sample& sample);

// Indices and sizes that follow from constants are constants. Not every library computes with integers.
Sample with_folded_indices(const Sample& sample);

// The same in the form of operator set 15 (or 16, for updates that add), which older libraries read: reductions have
// their axes as attributes.
Sample with_older_forms(const Sample& sample);

}  // namespace finity::fuzz
