// Who made the first NaN or infinity of a run. Told of every node that ran, it
// follows the elements that are not finite from where they were made of finite ones.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

bool has_non_finite_element(const Datum& datum);

// Where an element stands, and where that is in an operand that is repeated along missing axes and axes of size 1.
Dims index_at(const Dims& dims, std::size_t position);
std::optional<std::size_t> position_in(const Dims& operand, const Dims& index);

// One operand of the node, and its value at the element that failed where each element has one.
struct OperandThere {
  ValueId value = {};
  Datum datum = {};
  std::optional<double> element = {};
};

struct FirstFailure {
  const Node* node = nullptr;
  ValueId value = {};  // the result
  Dims index = {};     // of its first element that is not finite
  double element = 0;
  DType dtype = DType::undefined;
  std::vector<OperandThere> operands = {};
};

class FailureFinder {
 public:
  explicit FailureFinder(const Graph& graph) : graph_(graph), seen_(graph.values().size()) {}

  // For RunOptions::watch.
  void saw(const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs);

  // The first failure behind a value that is not finite; null when an input or a constant is so itself.
  const FirstFailure* behind(ValueId id) const;
  // That input or constant, if it is known.
  ValueId given_behind(ValueId id) const;

 private:
  struct Seen {
    bool nan = false;
    bool infinite = false;
    int failure = -1;    // the first one behind it
    ValueId given = {};  // else the input or constant that was so from the start
  };

  static Seen look_at(const Datum& datum);
  static Seen joined(const Seen& a, const Seen& b);
  int failure_behind(ValueId id) const;
  Seen before(const Node& node, std::span<const Datum> inputs) const;
  void remember(const Node& node, ValueId value, std::span<const Datum> inputs, const Datum& output);

  const Graph& graph_;
  std::vector<Seen> seen_;  // by ValueId: results of nodes
  std::vector<FirstFailure> failures_;
};

}  // namespace finity
