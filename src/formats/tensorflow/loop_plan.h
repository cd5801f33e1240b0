// What a while loop of either version comes down to: values handed from one round to the next, a test before each round
// and a step. Written as a Loop of the op table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/tensorflow/lowering.h"

namespace finity::tensorflow {

class Importer;

struct LoopState {
  TfValue initial = {};
  bool invariant = false;                 // handed on as it is
  std::optional<std::int64_t> step = {};  // an integer that grows by this in each round
};

struct LoopPlan {
  std::vector<LoopState> states = {};
  // While state `counter` is less than (or equal to) `limit`, and perhaps other things hold.
  int counter = -1;
  ValueId limit = {};
  bool or_equal = false;

  using Values = std::vector<TfValue>;
  std::function<ValueId(const Values&)> test = {};
  std::function<Values(const Values&)> step = {};
};

// The states behind the loop. Throws Error when the body cannot be written.
std::vector<TfValue> write_loop(Importer& importer, const LoopPlan& plan);

}  // namespace finity::tensorflow
