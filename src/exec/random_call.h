// Random calls of an op: operands, attributes and versions that its signature admits, most of them odd.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/reference.h"
#include "ops/table/op.h"

namespace finity {

struct RandomCall {
  Graph graph = {};
  Inputs inputs = {};
};

// The same seed gives the same call. `detail`: how much is known of the operands. 0: elements, 1: sizes, 2: ranks, 3:
// dtypes.
RandomCall random_call(const OpDef& op, std::uint64_t seed, int detail);

// Ops with subgraphs need a graph around them: testdata/ops/flow.txt has those.
std::vector<const OpDef*> callable_ops();

}  // namespace finity
