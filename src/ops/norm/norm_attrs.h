// Attributes of normalisations, read once for inference, evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include "ops/table/call.h"

namespace finity {

// The format that rows are standardised in. Throws Error when it is no float of at least 16 bits.
DType stash_type(const Call& call);
// BatchNormalization: the moments are the batch's own instead of given ones.
bool batch_trains(const Call& call);
// Up to opset 8 a batch could have one parameter per position instead of one per channel.
bool batch_is_spatial(const Call& call);
// MeanVarianceNormalization: the axes it standardises over.
std::vector<std::int64_t> moment_axes(const Call& call);

}  // namespace finity
