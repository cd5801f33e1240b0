// A node against its op's signature: arity, attribute kinds and choices, dtypes.
#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/table/call.h"
#include "ops/table/op.h"

namespace finity {

// Throws Error naming the operand or attribute.
void check_arity(const OpDef& op, const Node& node);
void check_attrs(const OpDef& op, const Node& node);
// Also fills in the outputs whose dtype follows from the inputs'.
void check_dtypes(const OpDef& op, InferCall& call);

}  // namespace finity
