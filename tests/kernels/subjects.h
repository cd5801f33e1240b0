// What is put before a runtime: small graphs with ordinary inputs, most of them one node, made from the op cases in
// testdata/ops and the chains in testdata/kernels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "check/contract.h"
#include "exec/reference.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity::kernels {

struct Subject {
  std::string op = {};     // of the last node, or "chain NAME"
  std::string dtype = {};  // of the floats it works on, else of its first operand
  std::string name = {};   // of the case, and how it was changed
  Graph graph = {};
  Types types = {};
  Inputs inputs = {};
  std::optional<Premises> premises = {};  // what is told of the inputs, when it is not to be made up around them
};

// The dtype that the table names a node by.
std::string dtype_label(const Graph& graph, const Types& types, const Node& node);

using Visitor = std::function<void(const Subject&)>;

// Every case of a file of testdata/ops with more or fewer of its operands constant, in other float formats, and in
// other sizes (also none at all).
void each_case(const std::string& path, std::uint64_t seed, const Visitor& visit);
// The same for the graphs of a file of testdata/kernels, whose inputs are drawn; all but the first once as constants.
void each_graph(const std::string& path, std::uint64_t seed, const Visitor& visit);

// Calls of every op of the table with random operands and attributes that the reference answers.
void each_random_call(std::uint64_t seed, std::uint64_t calls, const Visitor& visit);
// Every elementwise op of one operand on runs of neighbouring numbers: all of float16, one in `step` runs of 65,536
// float32 numbers between 2^-14 and 2^8 of either sign.
void each_sweep(std::uint64_t seed, std::uint64_t step, const Visitor& visit);
// Graphs of the generator that RandomGraphs uses.
void each_random_graph(std::uint64_t seed, std::uint64_t count, const Visitor& visit);

}  // namespace finity::kernels
