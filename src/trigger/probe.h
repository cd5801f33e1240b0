// How far a run of the model itself, in its own formats, is from making a finding come true. No slope comes with it,
// but it sees what gradients do not: integers, masks, loops, comparisons, and what rounding makes of a number near
// zero.
#pragma once

#include <optional>
#include <string>

#include "check/check_graph.h"
#include "check/verify.h"

namespace finity {

class Probe {
 public:
  // Nothing when the finding is of a quantity that no tensor of the model holds.
  static std::optional<Probe> make(const CheckedGraph& model, std::size_t finding);

  // At most 0 where the finding is expected to come true, the less the farther inside of what is unsafe; infinite where
  // its node was not reached.
  double distance(const Drawn& drawn, std::uint64_t seed) const;
  std::string describe(double distance) const;

 private:
  explicit Probe(const CheckedGraph& model) : model_(&model) {}
  double nearest(const Tensor& tensor) const;

  const CheckedGraph* model_;
  NodeId node_ = {};
  int operand_ = -1;       // -1: the results, which may overflow
  UnsafeSet unsafe_ = {};  // of the operand
  double limit_ = 0;       // of an overflow
};

}  // namespace finity
