// Where an operand comes from, for rules about what optimisers merge into one kernel:
// the op that computes it and, step by step, that op's own operands. A rule that is
// asked without a graph around it sees nothing here.
#pragma once

#include <functional>

#include "domain/abs_tensor.h"
#include "graph/graph.h"

namespace finity {

class Upstream {
 public:
  // What the engine lets rules see of the graph.
  struct Around {
    const Graph& graph;
    std::function<const AbsTensor*(ValueId)> range_of = {};  // null where nothing is known; may be empty
  };

  Upstream() = default;
  Upstream(const Around& around, ValueId value) : around_(&around), value_(value) {}

  // What computes it; null for inputs, weights and ops that are not in the table.
  const OpDef* op() const;
  std::size_t input_count() const;
  Upstream input(std::size_t i) const;
  // What is known of it; null when the engine does not say.
  const AbsTensor* range() const;
  bool is_weight() const;  // a constant of the file
  bool is(const Upstream& other) const { return value_.valid() && value_ == other.value_; }

 private:
  const Node* node() const;

  const Around* around_ = nullptr;
  ValueId value_ = {};
};

}  // namespace finity
