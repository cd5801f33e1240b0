#include "ops/shared/sum_relations.h"

#include <algorithm>

#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "ops/shared/relations.h"

namespace finity {

std::optional<double> constant_of(const AbsTensor& x) {
  const Range hull = x.hull();
  if (!hull.is_point()) return std::nullopt;
  return hull.lo;
}

bool keeps_shape(const RangeCall& call, const AbsTensor& x) {
  if (!call.out_type(0).ranked || !x.ranked) return false;
  return (&x == &call.in(0) && keeps_shape_of(call, 0)) || (&x == &call.in(1) && keeps_shape_of(call, 1));
}

// ---- sums --------------------------------------------------------------------

namespace {

constexpr std::size_t kMostRelations = 16;

// x + y, rounded, is at least x; of what squares are compared with, y's least value is a surplus.
AggregateBound raised(const AggregateBound& bound, double surplus, DType dtype) {
  AggregateBound result = bound;
  if ((bound.of != Of::square && bound.of != Of::square_sum) || !(surplus > 0)) return result;
  const double shrunk = 1 - 2 * unit_roundoff(dtype);
  result.relative = bound.relative + 2 * unit_roundoff(dtype);
  result.absolute = (bound.absolute > 0 ? bound.absolute : bound.absolute * shrunk) - surplus * shrunk;
  return result;
}

}  // namespace

void carry_lower_bounds(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, AbsTensor& result) {
  if (!y.hull().nonnegative() || y.hull().pinf) return;
  const bool same_shape = keeps_shape(call, x);
  const Relations below = lower_bounds(x);
  for (const AggregateBound& bound : each<AggregateBound>(below)) {
    if (result.relations.size() >= kMostRelations) return;  // long sums
    if (!bound.source.aligned && !same_shape) continue;     // which axis is missing is no longer known
    const bool squares = bound.of == Of::square || bound.of == Of::square_sum;
    // Flushed squares of small numbers may vanish altogether.
    if (squares && (call.settings().flush_subnormals || !is_float(x.dtype))) continue;
    result.relations.push_back(raised(bound, y.hull().lo, x.dtype));
  }
}

void carry_row_max(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, bool minus, AbsTensor& result) {
  if (!result.ranked || !x.ranked || result.rank() > 32 || x.rank() > result.rank()) return;
  const DType dtype = call.out_dtype(0);
  const Range other = y.hull();
  // It may be just the largest element that is taken away.
  if (other.nan || (minus ? other.pinf : other.ninf)) return;
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (rows.of != Of::largest) continue;
    const Range moved = minus ? subtract(dtype, rows.in, other) : add(dtype, rows.in, other);
    // The row's new largest element may be another one: only the lower end is the old one's.
    const Range in{.lo = moved.lo,
                   .hi = std::max(moved.hi, result.hull().hi),
                   .nan = moved.nan,
                   .pinf = moved.pinf || result.hull().pinf,
                   .ninf = moved.ninf};
    // Repeated along other axes it is still there.
    const AxisBits axes = rows.axes << (result.rank() - x.rank());
    result.relations.push_back(RowBound{.axes = axes, .of = Of::largest, .in = in});
  }
}

void use_case_splits(const AbsTensor& a, const AbsTensor& b, DType dtype, AbsTensor& result) {
  for (const CaseSplit& left : each<CaseSplit>(a.relations)) {
    for (const CaseSplit& right : each<CaseSplit>(b.relations)) {
      if (right.operands != left.operands) continue;
      CaseSplit sum = left;
      sum.when = left.when | right.when;
      sum.in = join(add(dtype, left.in, b.hull()), add(dtype, a.hull(), right.in));
      if (!sum.covers_all()) result.relations.push_back(sum);
      else if (!sum.in.ninf && sum.in.has_finite()) cap_below(result, sum.in.lo);
      break;
    }
  }
}

// ---- differences -------------------------------------------------------------

namespace {

// By how much a relation may be missed: in narrow formats it may be known up to a rounding only.
template <class Kind>
double leeway(const Kind& relation, const AbsTensor& a, const AbsTensor& b) {
  return relation.relative * (a.hull().magnitude() + b.hull().magnitude()) + relation.absolute;
}

// Numbers of the format around zero that reach this far.
Range around_zero(DType dtype, double reach) { return reach == 0 ? point(0) : from_bounds(dtype, -reach, reach, 1); }

const AggregateBound* order_of(const AbsTensor& greater, const AbsTensor& smaller) {
  if (const AggregateBound* bound = related(greater, Of::largest, smaller)) return bound;
  const AggregateBound* bound = find_above(smaller.relations, Of::smallest, greater.identity);
  return bound != nullptr && bound->source.aligned ? bound : nullptr;
}

// a is at least, and b at most, the elements of a third value: the maximum of a row less its minimum.
bool between(const AbsTensor& a, const AbsTensor& b) {
  if (!a.ranked || !b.ranked || a.sizes != b.sizes) return false;
  return std::ranges::any_of(each<AggregateBound>(a.relations), [&](const AggregateBound& upper) {
    const bool above = upper.of == Of::largest && upper.bounds_below() && upper.is_exact();
    const AggregateBound* lower = above ? find_above(b.relations, Of::smallest, upper.source.value) : nullptr;
    return lower != nullptr && upper.source.aligned && lower->source == upper.source && lower->is_exact();
  });
}

}  // namespace

void use_order(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const bool finite = !b.hull().pinf && !b.hull().ninf;
  if (!finite) return;
  const auto reach = [&](const AggregateBound& bound) { return around_zero(result.dtype, leeway(bound, a, b)); };
  if (const AggregateBound* below = order_of(b, a); below != nullptr && reach(*below).is_finite())
    cap_above(result, reach(*below).hi);
  if (const AggregateBound* above = order_of(a, b); above != nullptr && reach(*above).is_finite())
    cap_below(result, reach(*above).lo);
  if (between(a, b)) cap_below(result, 0);
}

void add_maximum_splits(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const AggregateBound* max = related(b, Of::largest, Order::equal, a);
  if (max != nullptr && keeps_shape(call, a) && !b.hull().pinf && !b.hull().ninf) {
    const Range largest = around_zero(result.dtype, leeway(*max, a, b));
    result.relations.push_back(RowBound{.axes = max->source.axes, .of = Of::largest, .in = largest});
  }
  if (!b.hull().is_finite()) return;
  for (const MaximumOf& maximum : each<MaximumOf>(b.relations)) {
    for (std::size_t i = 0; i < maximum.operands.size(); ++i) {
      const ValueId operand = maximum.operands[i];
      const bool this_one = operand.valid() ? operand == a.identity : constant_of(a) == 0.0;
      if (!this_one) continue;
      result.relations.push_back(CaseSplit{.operands = maximum.operands,
                                           .when = std::uint32_t{1} << i,
                                           .in = around_zero(result.dtype, leeway(maximum, a, b))});
    }
  }
}

// With M the mean of squares and m the mean, a >= M (1 - r) - d and b <= m^2 + s (mean |x|)^2 + e, and neither m^2 nor
// the square of the mean of |x| is more than M.
void use_variance(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  if (!is_float(result.dtype) || call.settings().flush_subnormals) return;
  if (!keeps_shape(call, a) || !keeps_shape(call, b)) return;
  for (const AggregateBound& square : each<AggregateBound>(b.relations)) {
    if (square.of != Of::squared_mean || !square.bounds_above()) continue;
    const AggregateBound* mean = find_below(a.relations, Of::mean_square, square.source.value);
    if (mean == nullptr || !(mean->source == square.source) || !(mean->relative < 0.5)) continue;
    const double most = (a.hull().magnitude() + mean->absolute) / (1 - mean->relative);
    const double slack = (mean->relative + square.relative) * most + mean->absolute + square.absolute;
    if (const Range below = from_bounds(result.dtype, -slack, 0, 1); below.is_finite()) cap_below(result, below.lo);
  }
}

}  // namespace finity
