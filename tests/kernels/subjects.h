// What is put before a runtime: small graphs with ordinary inputs, most of them one node, made from the op cases in
// testdata/ops and the chains in testdata/kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
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
};

using Visitor = std::function<void(const Subject&)>;

// Every case of a file of testdata/ops with more or fewer of its operands constant, in other float formats, and in
// other sizes (also none at all).
void each_case(const std::string& path, std::uint64_t seed, const Visitor& visit);
// The same for the graphs of a file of testdata/kernels, whose inputs are drawn; all but the first once as constants.
void each_graph(const std::string& path, std::uint64_t seed, const Visitor& visit);

}  // namespace finity::kernels
