// Which nodes of a run failed, rather than passing a failure on.
#pragma once

#include <set>
#include <vector>

#include "graph/graph.h"

namespace finity {

class FailingNodes {
 public:
  // What is among the elements of a node's operands, or of its results.
  struct Among {
    bool nan = false;
    bool infinite = false;
  };

  // To be called in the order of the run.
  void saw(NodeId id, const Node& node, Among operands, Among results);
  std::vector<NodeId> take() { return std::move(failing_); }

 private:
  std::vector<NodeId> failing_ = {};
  std::set<ValueId> blamed_ = {};  // not finite because of a node that failed
};

}  // namespace finity
