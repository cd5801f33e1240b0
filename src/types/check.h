// A node against its op's signature: arity, attribute kinds and choices; dtypes are checked by ops/table/dtypes.h.
#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/table/dtypes.h"
#include "ops/table/op.h"

namespace finity {

// Throws Error naming the operand or attribute.
void check_arity(const OpDef& op, const Node& node);
void check_attrs(const OpDef& op, const Node& node);

}  // namespace finity
