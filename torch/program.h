// A graph as a program of LibTorch calls. It keeps the graph's own ids, so whoever runs it sets values (inputs,
// weights, anything in between) and reads values by id, and LibTorch's autograd sees one connected computation.
//
//   TorchProgram program(graph);
//   TorchRun run(program.graph());
//   run.set(x, to_value(tensor));
//   run.require_gradient(x);
//   program.run(program.plan({{loss}}), run);
//   gradients(run, loss, {{x}});
//
// A plan can be run again and again with the same TorchRun: that is the loop of a search or of training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "graph/graph.h"
#include "torch/lowering.h"
#include "torch/value.h"
#include "types/infer.h"

namespace finity {

// The values of one run.
class TorchRun {
 public:
  explicit TorchRun(const Graph& graph, std::uint64_t seed = 0) : rng(seed), values(graph.values().size()) {}

  void set(ValueId id, TorchValue value) { values[id.at()] = std::move(value); }
  // Throws Error when the value was neither set nor computed.
  const TorchValue& at(ValueId id) const;
  // Makes a value that was set a leaf of the derivatives. Throws Error when it is not a float.
  void require_gradient(ValueId id);

  Rng rng;                         // draws the same numbers as the reference does with that seed
  std::vector<TorchValue> values;  // by ValueId; constants are here only when they were set
  // Called for every node that ran, in order, when set.
  std::function<void(const Node&, std::span<const TorchValue> inputs, std::span<const TorchValue> outputs)> watch = {};
};

class TorchProgram {
 public:
  // Throws Error when the model contradicts an op's rules.
  explicit TorchProgram(std::shared_ptr<const Graph> graph);

  const Graph& graph() const { return *graph_; }
  const Types& types() const { return types_; }
  // A value of the main body. Throws Error when there is none of that name.
  ValueId find(std::string_view name) const;

  // The nodes of the main body behind these values, in order; what is `given` is not computed. Throws Unsupported
  // naming the first node that is not lowered.
  std::vector<NodeId> plan(std::span<const ValueId> wanted, std::span<const ValueId> given = {}) const;
  // Throws Error or Unsupported naming the node.
  void run(std::span<const NodeId> plan, TorchRun& run) const;

 private:
  struct Step {
    const TorchLowering* lowering = nullptr;
    std::string place = {};          // the node, for last words
    std::vector<DType> dtypes = {};  // of the outputs
  };

  Step step_of(const Node& node) const;
  void require_lowered(const Node& node) const;
  const TorchValue& operand(ValueId id, TorchRun& run) const;
  void run_node(const Node& node, TorchRun& run) const;
  std::vector<TorchValue> run_body(BodyId id, std::span<const TorchValue> inputs, TorchRun& run) const;

  std::shared_ptr<const Graph> graph_;
  Types types_;
  std::vector<Step> steps_;  // by NodeId
  std::unordered_map<std::string_view, ValueId> names_;
  mutable std::vector<TorchValue> constants_;  // by ValueId, loaded when asked for
};

// Derivatives of a value with one element; zeros where it does not depend on an id. The computation may be derived
// again when `keep`. Throws Error when the value has several elements or no derivative is known.
std::vector<TorchValue> gradients(const TorchRun& run, ValueId of, std::span<const ValueId> ids, bool keep = false);

}  // namespace finity
