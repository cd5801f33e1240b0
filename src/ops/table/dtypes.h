// The dtypes of a call against the op's signature.
#pragma once

#include "ops/table/call.h"

namespace finity {

// Throws Error when an operand is not what the signature wants; every output whose dtype follows from the signature
// becomes a tensor of that dtype.
void check_dtypes(const OpDef& op, InferCall& call);

}  // namespace finity
