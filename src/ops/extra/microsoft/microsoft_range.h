// Range rules of ONNX Runtime's spellings of default-domain ops: most ask that op's rule.
#pragma once

#include "ops/shared/delegate.h"
#include "ops/table/op.h"

namespace finity {

// The op of the same name in the default domain.
template <int Version>
void range_alias(RangeCall& call) {
  range_as(call, {call.op().identity.name, Version});
}

void range_microsoft_pad(RangeCall& call);
void range_microsoft_range(RangeCall& call);
void range_microsoft_unique(RangeCall& call);
void range_expand_dims(RangeCall& call);
void range_loss_internal(RangeCall& call);
void range_microsoft_scale(RangeCall& call);

}  // namespace finity
