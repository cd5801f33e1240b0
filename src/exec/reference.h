// Runs a graph with the op table's own eval: slow, simple, and independent of
// every library under test.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

using Inputs = std::map<std::string, Datum, std::less<>>;

struct RunOptions {
  std::uint64_t seed = 0;  // for the random ops of the graph
  // Called for every node that ran, in order (nodes of loop bodies once per iteration).
  std::function<void(const Node&, std::span<const Datum>)> trace = {};
  // The same with the operands.
  std::function<void(const Node&, std::span<const Datum> inputs, std::span<const Datum> outputs)> watch = {};
  // When given, an op of the main body that cannot be run does not end the run: it is noted here, and what
  // depends on it is absent from the outputs.
  std::vector<Note>* unsupported = nullptr;
  // Constants of the graph (initializers) to replace, for runs with other weights; or results of random ops, which then
  // do not draw.
  const std::unordered_map<ValueId, Datum>* weights = nullptr;
  // float32 and float64 numbers below the normal ones count as zeros, before and after every node, as processors do
  // that flush them.
  bool flush_subnormals = false;
};

// Outputs in the order of the main body's outputs. Throws Error naming the node, or the missing input; TimeUp when the
// thread's TimeLimit passes.
std::vector<Datum> run_reference(const Graph& graph, const Inputs& inputs, const RunOptions& options = {});

}  // namespace finity
