// Writes suspect losses behind a graph: how far a value is from a hazard's unsafe values, in double.
#pragma once

#include "ops/table/hazard.h"
#include "types/graph_writer.h"

namespace finity {

class LossWriter {
 public:
  explicit LossWriter(GraphWriter& writer) : writer_(writer) {}

  ValueId number(double x);
  ValueId as_double(ValueId id);
  // Of each element to its nearest unsafe value; `set` is not empty.
  ValueId distances(ValueId quantity, const UnsafeSet& set);
  // How far the logarithm of each magnitude is from the limit's.
  ValueId room(ValueId magnitudes, double limit);
  // The logarithm of what is not negative; of 0 that of a number far below all that count.
  ValueId logarithm(ValueId id);
  // One number of all elements.
  ValueId over_all(std::string_view reduction, ValueId id);

 private:
  GraphWriter& writer_;
};

// Nothing but infinities is unsafe: what comes near is an overflow.
bool only_infinities(const UnsafeSet& set);

}  // namespace finity
