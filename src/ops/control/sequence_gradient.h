// Gradients of ops on sequences and on arrays. The gradient of a sequence is a sequence of as many tensors, the one of
// an optional that of what it holds.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

// Whether SplitToSequence gives pieces without the axis that was cut.
bool drops_axis(const Call& call);

void sequence_construct_gradient(BuildCall& call);
void sequence_at_gradient(BuildCall& call);
void sequence_insert_gradient(BuildCall& call);
void sequence_erase_gradient(BuildCall& call);
void concat_from_sequence_gradient(BuildCall& call);
void split_to_sequence_gradient(BuildCall& call);
// What arrives is the gradient of what was handed on.
void optional_gradient(BuildCall& call);

void array_write_gradient(BuildCall& call);
void array_scatter_gradient(BuildCall& call);
void array_push_gradient(BuildCall& call);

}  // namespace finity
