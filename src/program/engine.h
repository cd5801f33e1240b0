// What a search asks of whoever computes: passes over the program's graph with their derivatives, and training steps.
// Weights and what the optimiser remembers stay with the engine. There are two: LibTorch (torch/training.cpp, in a
// process of its own) and the reference.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "program/program.h"
#include "tensor/tensor.h"

namespace finity {

// Values to compute, and one of them (with one element) to derive.
struct Pass {
  std::vector<ValueId> read = {};
  ValueId derived = {};
  std::vector<ValueId> by = {};
};

struct PassResult {
  std::vector<Tensor> values = {};
  std::vector<Tensor> gradients = {};  // zeros where nothing depends on it
};

// Weights that are trained on the same loss, in the order of the program.
struct Phase {
  ValueId loss = {};
  std::vector<std::size_t> weights = {};  // positions in Program::weights
};
std::vector<Phase> phases_of(const Program& program);

class TrainingEngine {
 public:
  virtual ~TrainingEngine() = default;
  virtual std::string name() const = 0;

  // Throws Unsupported naming the node when the engine cannot compute it. The result is the pass's number.
  virtual std::size_t add_pass(Pass pass) = 0;

  // In the order of Program::weights; the optimiser forgets.
  virtual void start(std::span<const Tensor> weights) = 0;
  virtual Tensor weight(std::size_t i) const = 0;
  virtual void set_weight(std::size_t i, const Tensor& weight) = 0;
  virtual void feed(ValueId input, const Tensor& tensor) = 0;
  // For random ops of the graph in what follows.
  virtual void set_seed(std::uint64_t seed) = 0;

  virtual PassResult run(std::size_t pass) = 0;
  // One step of every phase, then hand-written updates. False when a loss or gradient was not finite; then nothing has
  // changed.
  virtual bool train() = 0;
  // Nodes that failed when these values are computed (failing_nodes.h), in order.
  virtual std::vector<NodeId> failures(std::span<const ValueId> wanted) = 0;

  // The weights and the optimiser's memory now; go_back returns there as often as wanted.
  class State {
   public:
    virtual ~State() = default;
  };
  virtual std::shared_ptr<const State> state() const = 0;
  virtual void go_back(const State& state) = 0;
};

std::unique_ptr<TrainingEngine> make_reference_engine(const Program& program);

}  // namespace finity
