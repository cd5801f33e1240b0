// How a reduction compares with its operand and with what that was made of.
#pragma once

#include "ops/reduce/reduce_range.h"

namespace finity {

// Relative error of a sum of squares, in the coarsest format it may be carried in.
double square_sum_error(const RangeCall& call, const AbsTensor& x, AxisBits axes, const AggregateBound& square);
// Squares that are computed inside the op.
AggregateBound own_square(const RangeCall& call, const AbsTensor& x);

// Adds relations to the result of reducing x; nothing where it is not known along which axes.
class RelationWriter {
 public:
  RelationWriter(const AbsTensor& x, const std::optional<Reduced>& reduced, AbsTensor& result);

  void add(AggregateBound bound, ValueId source);
  void add(Of of, Order order) { add({.of = of, .order = order}, x_.identity); }
  // x is the square of other values.
  std::vector<AggregateBound> squares() const;
  // This is a sum of squares: at least each of them, as adding what is not negative only makes it larger, and at least
  // the sum of all up to the rounding of the sum.
  void add_square_sum(const RangeCall& call, const AggregateBound& square);
  // This is the mean of squares; unless squares are flushed it is at least its share of their sum.
  void add_mean_square(const RangeCall& call, const AggregateBound& square);
  // x is the size of another value: so is at least what is at least x.
  void add_sizes();

  AxisBits axes() const { return axes_; }
  bool known() const { return known_; }

 private:
  const AbsTensor& x_;
  AbsTensor& result_;
  AxisBits axes_ = 0;
  bool known_ = false;
  bool aligned_ = false;
};

}  // namespace finity
