#include "ops/reduce/reduced_relations.h"

#include <algorithm>

#include "ops/shared/lengths.h"
#include "ops/shared/relations.h"

namespace finity {

double square_sum_error(const RangeCall& call, const AbsTensor& x, AxisBits axes, const AggregateBound& square) {
  const double carried = (x.most_count(axes) + 2) * unit_roundoff(call.accumulators(x.dtype).front());
  return 2 * carried + square_error(x.dtype, square);  // the result is rounded too
}

AggregateBound own_square(const RangeCall& call, const AbsTensor& x) {
  return {.source = {x.identity}, .of = Of::square, .relative = 2 * call.ulps() * unit_roundoff(x.dtype)};
}

RelationWriter::RelationWriter(const AbsTensor& x, const std::optional<Reduced>& reduced, AbsTensor& result)
    : x_(x), result_(result) {
  if (!reduced || reduced->axes.size() > 32) return;
  known_ = true;
  axes_ = axis_bits(reduced->axes).value_or(0);
  aligned_ = reduced->aligned();
}

void RelationWriter::add(AggregateBound bound, ValueId source) {
  if (!known_ || !source.valid() || !(bound.relative < 1)) return;
  bound.source = {source, axes_, aligned_};
  result_.relations.push_back(bound);
}

std::vector<AggregateBound> RelationWriter::squares() const {
  std::vector<AggregateBound> result;
  for (const AggregateBound& bound : each<AggregateBound>(x_.relations)) {
    if (bound.of == Of::square && bound.order == Order::equal && bound.source.axes == 0) result.push_back(bound);
  }
  return result;
}

void RelationWriter::add_square_sum(const RangeCall& call, const AggregateBound& square) {
  const double lost = min_subnormal(x_.dtype) + square.absolute;  // of each square
  AggregateBound bound{.of = Of::square, .order = Order::at_least};
  bound.relative = square_error(x_.dtype, square);
  bound.absolute = 4 * lost;
  add(bound, square.source.value);
  bound.of = Of::square_sum;
  bound.relative = square_sum_error(call, x_, axes_, square);
  bound.absolute = (x_.most_count(axes_) + 2) * lost;
  add(bound, square.source.value);
}

void RelationWriter::add_mean_square(const RangeCall& call, const AggregateBound& square) {
  const double count = std::max(1.0, x_.most_count(axes_));
  AggregateBound bound{.of = Of::mean_square};
  bound.relative = sum_error(call, x_.dtype, count + 4) + square_error(x_.dtype, square);
  bound.absolute = 4 * min_subnormal(x_.dtype) + square.absolute;
  add(bound, square.source.value);
  if (call.settings().flush_subnormals) return;
  bound.order = Order::at_least;
  bound.factor = 1 / count;
  for (const Of of : {Of::square, Of::square_sum}) {
    bound.of = of;
    add(bound, square.source.value);
  }
}

void RelationWriter::add_sizes() {
  for (AggregateBound bound : each<AggregateBound>(x_.relations)) {
    if (bound.of != Of::magnitude || bound.order != Order::equal || bound.source.axes != 0) continue;
    bound.order = Order::at_least;
    add(bound, bound.source.value);
  }
}

}  // namespace finity
