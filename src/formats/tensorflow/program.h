// A list of nodes, that of a graph or of a function, made ready for import: names resolved to numbers, frames of
// version 1 loops found, the branches of version 1 conditionals told apart, everything in an order in which it can be
// written.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

// Result `output` of a node. Numbers from the count of nodes on are arguments of the function.
struct Edge {
  int node = -1;
  int output = 0;
  auto operator<=>(const Edge&) const = default;
};

// "Taken only when `predicate` is `truth`": what a Switch says of its results.
struct Guard {
  Edge predicate = {};
  bool truth = false;
  auto operator<=>(const Guard&) const = default;
};

struct ProgramNode {
  const NodeDef* def = nullptr;
  std::vector<Edge> inputs = {};
  std::vector<int> controls = {};
  int outputs = 1;  // how many somebody uses
  int frame = 0;
  bool only_assigned = false;  // its results go into variables and nowhere else
  Edge branch = {};            // the one input of a Merge that it is computed for; none: node -1
};

// What is run, in this order, inside one frame: nodes of its own, and frames inside it as a whole.
struct Unit {
  int node = -1;
  int frame = -1;
};

// The loop of one frame name; frame 0 is what is outside of all loops.
struct LoopFrame {
  std::string name = {};
  int parent = -1;
  int depth = 0;
  std::vector<Unit> order = {};
  std::vector<int> enters = {};
  std::vector<int> merges = {};  // of loop variables: Merge(Enter, NextIteration)
  std::vector<int> exits = {};
  int condition = -1;  // LoopCond
};

struct Program {
  std::vector<ProgramNode> nodes = {};
  std::vector<std::string_view> arguments = {};
  std::vector<Edge> results = {};  // of a function
  std::vector<LoopFrame> frames = {};
  std::vector<int> guards = {};                     // by node: a set of `guard_sets`
  std::vector<std::vector<Guard>> guard_sets = {};  // 0: the empty one
  std::map<Edge, std::vector<int>> branches = {};   // nodes by what they are computed for, in order

  // Of the value on an edge: behind a Switch, the branch too.
  std::vector<Guard> guards_of(const Edge& edge) const;
  bool is_argument(const Edge& edge) const { return edge.node >= static_cast<int>(nodes.size()); }
  std::string_view op(int node) const { return nodes[static_cast<std::size_t>(node)].def->op; }
};

// Throws Error naming the node: inputs that are not there, cycles without NextIteration, frames that do not nest.
Program make_program(const GraphDef& graph, std::span<const NodeDef> nodes, const FunctionDef* function);

bool is_switch(std::string_view op);
bool is_merge(std::string_view op);
bool is_enter(std::string_view op);
bool is_exit(std::string_view op);
bool is_next_iteration(std::string_view op);

}  // namespace finity::tensorflow
