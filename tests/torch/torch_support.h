// The engine on LibTorch as tests use it.
#pragma once

#include "exec/worker.h"
#include "graph/graph.h"
#include "support/difference.h"

namespace finity {

// One process for all tests of a program.
Worker& torch_process();

// The main outputs as LibTorch computes them.
Answer run_in_torch(const Graph& graph, const NamedData& inputs);

}  // namespace finity
