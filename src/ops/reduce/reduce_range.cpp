// Sums are bounded for every order of additions and every format that partial sums
// may be carried in; see range_groups.h. Relations that a result has:
//
//   ReduceMax        the largest element
//   ReduceMin        the smallest element
//   ReduceSum        of what is never negative: its sum, and at least each element
//   ReduceL1, L2     at least the size of each element
//   ReduceSumSquare  at least each square, and at least the sum of squares; also ReduceSum of squares
//   ReduceMean       the mean; of squares: the mean of squares, and at least their share of the sum
//   ReduceLogSumExp  at least each element: the largest is shifted to 0, and log(s) >= 0 for s >= 1
#include "ops/reduce/reduce_range.h"

#include <algorithm>
#include <cmath>

#include "ops/norm/norm_relations.h"
#include "ops/reduce/reduce_attrs.h"
#include "ops/reduce/reduced_relations.h"
#include "ops/shared/lengths.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relations.h"
#include "ops/shared/shapes.h"
#include "tensor/float_formats.h"

namespace finity {

bool Reduced::aligned() const {
  // Without the reduced axes the others must be the last ones.
  return keep || std::ranges::is_sorted(axes, std::greater<>());
}

namespace {

// nullopt: not known, or the operand's rank is not.
std::optional<Reduced> reduced_of(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto attrs = read_reduce(call, call.has_input(1) ? call.ints(1) : std::nullopt);
  if (!x.ranked || !attrs) return std::nullopt;
  return Reduced{attrs->reduced(x.rank()), attrs->keep};
}

using CarriedRange = Range (*)(DType dtype, DType carrier, const Group& group);

// The result's cells. Any number of elements may be reduced where the axes are not known.
AbsTensor reduce(RangeCall& call, const std::optional<Reduced>& reduced, const GroupRange& f) {
  if (!reduced) return uniform(call.out_type(0), f(some_elements(call.in(0))));
  return reduced_cells(call.in(0), reduced->axes, reduced->keep, call.out_dtype(0), f);
}

AbsTensor reduce_carried(RangeCall& call, const std::optional<Reduced>& reduced, CarriedRange f) {
  const DType dtype = call.out_dtype(0);
  return reduce(call, reduced, [&](const Group& group) {
    return in_all_carriers(call, dtype, [&](DType carrier) { return f(dtype, carrier, group); });
  });
}

// Squares and absolute values of integers wrap in 64 bits only.
DType wide_integers(DType dtype) { return dtype == DType::uint64 ? dtype : DType::int64; }

Range sum_of_squares(DType dtype, DType carrier, const Group& group) {
  const DType inner = is_float(dtype) ? carrier : wide_integers(dtype);
  return group_sum(dtype, carrier, mapped_parts(group, [&](const Range& x) { return square(inner, x); }));
}

Range sum_of_magnitudes(DType dtype, DType carrier, const Group& group) {
  const DType inner = is_float(dtype) ? dtype : wide_integers(dtype);
  return group_sum(dtype, carrier, mapped_parts(group, [&](const Range& x) { return absolute(inner, x); }));
}

Range root_of_squares(DType dtype, DType carrier, const Group& group) {
  const DType inner = is_float(dtype) ? carrier : wide_integers(dtype);
  const Range squares = sum_of_squares(inner, carrier, group);
  if (squares.is_empty()) return {};
  Range result;
  if (squares.has_finite()) {
    // Wrapped sums may be negative: their root is stored as any integer.
    if (squares.lo < 0) return any_finite(dtype);
    const double root = std::sqrt(squares.lo);
    result = is_float(dtype) ? from_bounds(dtype, root, std::sqrt(squares.hi))
                             : from_bounds(dtype, std::trunc(root), std::trunc(std::sqrt(squares.hi)));
  }
  result.nan |= squares.nan;
  result.pinf |= squares.pinf;
  return result;
}

// ---- relations -------------------------------------------------------------

// Squares of small numbers are off by a small one at most. Where these are flushed nothing is said of them.
bool keeps_squares(const RangeCall& call, const AbsTensor& x) {
  return is_float(x.dtype) && !call.settings().flush_subnormals;
}

// Rows inside the reduced axes: how many there are in each group.
double rows_least(const AbsTensor& x, AxisBits axes, AxisBits row) { return std::max(1.0, x.least_count(axes & ~row)); }

// The elements are not negative and each row's sum is known: so is the sum of some rows.
void refine_by_row_sum(const RangeCall& call, const AbsTensor& x, const RowBound& rows, AxisBits axes, Range& sum) {
  if (!rows.in.is_finite() || (rows.axes & ~axes) != 0 || !sum.has_finite()) return;
  const DType carrier = call.accumulators(x.dtype).front();
  const double terms = x.most_count(axes);
  const double least = rows.in.lo * rows_least(x, axes, rows.axes) * (1 - terms * unit_roundoff(carrier));
  const double most = rows.in.hi * x.most_count(axes & ~rows.axes) * sum_growth(carrier, terms);
  const Range bounds = from_bounds(x.dtype, least, most, 1);
  if (!bounds.is_finite()) return;
  sum.lo = std::max(sum.lo, bounds.lo);
  sum.hi = std::max(sum.lo, std::min(sum.hi, bounds.hi));
  // Rows of known sums do not overflow on the way either.
  if (most <= max_finite(carrier)) sum.pinf = x.hull().pinf;
}

bool never_negative(const AbsTensor& x) {
  return std::ranges::all_of(x.cells, [](const Range& cell) { return !cell.may_be_negative(); });
}

void refine_sum(const RangeCall& call, const AbsTensor& x, std::uint32_t axes, Range& sum) {
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (rows.of == Of::sum) refine_by_row_sum(call, x, rows, axes, sum);
    const bool maximum = rows.of == Of::largest && (rows.axes & ~axes) == 0;
    if (maximum && rows.in.has_finite() && !rows.in.ninf && sum.has_finite()) {
      sum.lo = std::max(sum.lo, std::min(rows.in.lo, sum.hi));
    }
  }
}

// The mean of a row is at least its share of the largest element.
void raise_mean(const RangeCall& call, const AbsTensor& x, std::uint32_t axes, AbsTensor& result) {
  const double count = x.most_count(axes);
  double error = 0;
  for (const DType carrier : call.accumulators(x.dtype)) error = std::max(error, summation_error(carrier, count + 4));
  if (!(error < 0.5) || call.settings().flush_subnormals) return;
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    const bool known = rows.of == Of::largest && (rows.axes & ~axes) == 0 && !rows.in.ninf;
    if (!known || !rows.in.has_finite()) continue;
    const double share = rows.in.lo / count * (1 - 2 * error);
    const Range least = from_bounds(result.dtype, share, share, 1);
    if (least.is_finite() && least.lo > 0) cap_below(result, least.lo);
  }
}

// An axis of size 0 gives nothing to reduce.
bool reduces_nothing(const AbsTensor& x, const AxisSet& axes) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis] && x.sizes[axis] == 0) return true;
  }
  return false;
}

bool may_reduce_nothing(const AbsTensor& x, const std::optional<Reduced>& reduced) {
  return reduced ? may_be_empty(x, reduced->axes) : x.may_be_empty();
}

// The sum of no elements is 0, their product 1, the logarithm of their sum -Inf.
void join_with_nothing(const AbsTensor& x, const std::optional<Reduced>& reduced, double nothing, AbsTensor& result) {
  if (!may_reduce_nothing(x, reduced)) return;
  for (Range& cell : result.cells) cell = join(cell, point(nothing));
  result.forms.clear();
}

}  // namespace

bool may_be_empty(const AbsTensor& x, const AxisSet& axes) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis] && x.sizes[axis] < 0 && !(x.size_limits(axis).least >= 1)) return true;
  }
  return false;
}

void ask_for_elements(RangeCall& call, const AbsTensor& x, const std::optional<Reduced>& reduced) {
  if (may_reduce_nothing(x, reduced)) call.site("FN306", 0, {}, true);
}

AbsTensor reduced_by_op(RangeCall& call, const GroupRange& f) {
  const std::optional<Reduced> reduced = reduced_of(call);
  ask_for_elements(call, call.in(0), reduced);
  return reduce(call, reduced, f);
}

void add_reduction(RangeCall& call, AbsTensor& result, Of of, Order order) {
  RelationWriter(call.in(0), reduced_of(call), result).add(of, order);
}

// ---- rules -----------------------------------------------------------------

void range_reduce_sum(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::optional<Reduced> reduced = reduced_of(call);
  AbsTensor result = reduce_carried(call, reduced, group_sum);
  RelationWriter relations(x, reduced, result);
  if (is_float(x.dtype) && relations.known()) cap_row_sums(call, x, relations.axes(), result);
  if (is_float(x.dtype) && relations.known() && never_negative(x)) {
    for (Range& cell : result.cells) refine_sum(call, x, relations.axes(), cell);
    relations.add(Of::largest, Order::at_least);
    relations.add_sizes();
    const double error = sum_error(call, x.dtype, x.most_count(relations.axes()));
    relations.add({.of = Of::sum, .relative = error}, x.identity);
    for (const AggregateBound& square : keeps_squares(call, x) ? relations.squares() : std::vector<AggregateBound>{}) {
      relations.add_square_sum(call, square);
    }
  }
  join_with_nothing(x, reduced, 0, result);
  call.out(0, std::move(result));
}

AbsTensor reduced_mean(RangeCall& call, const AbsTensor& x, const Reduced& reduced) {
  const DType dtype = call.out_dtype(0);
  const bool nothing = reduces_nothing(x, reduced.axes);
  if (nothing) call.site("FN306", 0, {}, true, true);
  AbsTensor result = reduced_cells(x, reduced.axes, reduced.keep, dtype, [&](const Group& group) {
    if (nothing) return Range{};
    return in_all_carriers(call, dtype, [&](DType carrier) { return group_mean(dtype, carrier, group); });
  });
  RelationWriter relations(x, reduced, result);
  if (relations.known() && is_float(dtype) && never_negative(x)) raise_mean(call, x, relations.axes(), result);
  if (!is_float(x.dtype)) return result;  // sums of integers wrap
  const double error = sum_error(call, x.dtype, x.most_count(relations.axes()) + 4);
  relations.add({.of = Of::mean, .relative = error, .absolute = min_subnormal(x.dtype)}, x.identity);
  for (const AggregateBound& square : relations.squares()) {
    relations.add_mean_square(call, square);
  }
  return result;
}

void range_reduce_mean(RangeCall& call) {
  const std::optional<Reduced> reduced = reduced_of(call);
  ask_for_elements(call, call.in(0), reduced);
  call.out(0, reduced ? reduced_mean(call, call.in(0), *reduced) : reduce_carried(call, reduced, group_mean));
}

void range_reduce_sum_square(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::optional<Reduced> reduced = reduced_of(call);
  AbsTensor result = reduce_carried(call, reduced, sum_of_squares);
  RelationWriter relations(x, reduced, result);
  if (keeps_squares(call, x) && relations.known()) relations.add_square_sum(call, own_square(call, x));
  join_with_nothing(x, reduced, 0, result);
  call.out(0, std::move(result));
}

void range_reduce_l1(RangeCall& call) {
  const std::optional<Reduced> reduced = reduced_of(call);
  AbsTensor result = reduce_carried(call, reduced, sum_of_magnitudes);
  // The sum of magnitudes is at least each of them, whatever is rounded.
  if (is_float(call.in(0).dtype)) RelationWriter(call.in(0), reduced, result).add(Of::magnitude, Order::at_least);
  join_with_nothing(call.in(0), reduced, 0, result);
  call.out(0, std::move(result));
}

void range_reduce_l2(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::optional<Reduced> reduced = reduced_of(call);
  AbsTensor result = reduce_carried(call, reduced, root_of_squares);
  RelationWriter relations(x, reduced, result);
  if (keeps_squares(call, x) && relations.known()) {
    // The sum is at least each square, and that at least x^2 (1 - u) less half the smallest number.
    relations.add({.of = Of::magnitude,
                   .order = Order::at_least,
                   .relative = 8 * unit_roundoff(x.dtype),
                   .absolute = std::sqrt(min_subnormal(x.dtype))},
                  x.identity);
    const double error = square_sum_error(call, x, relations.axes(), own_square(call, x));
    add_computed_norm(x, relations.axes(), reduced->aligned(), error, result);
  }
  join_with_nothing(x, reduced, 0, result);
  call.out(0, std::move(result));
}

namespace {

// The order of elements says nothing where a NaN among them may hide the largest.
bool may_pass_over_nan(const RangeCall& call, const AbsTensor& x) {
  return call.may(Way::passes_over_nan) && x.hull().nan;
}

// Largest element; any of them where there may be NaN.
Range largest_of(const RangeCall& call, const Group& group) {
  const Range hull = group.hull();
  if (hull.nan && call.may(Way::passes_over_nan)) return hull;
  return group_max(group);
}

// What pools make of nothing but -Inf or NaN.
void add_lowest(const RangeCall& call, const AbsTensor& x, AbsTensor& result) {
  const Range hull = x.hull();
  if (!call.may(Way::lowest_for_nothing) || !is_float(x.dtype) || !(hull.ninf || hull.nan)) return;
  for (Range& cell : result.cells) cell = join(cell, point(lowest_finite(result.dtype)));
}

}  // namespace

void range_reduce_max(RangeCall& call) {
  const std::optional<Reduced> reduced = reduced_of(call);
  ask_for_elements(call, call.in(0), reduced);
  if (reduced) call.out(0, reduced_max(call, call.in(0), *reduced));
  else call.out(0, reduce(call, reduced, [&](const Group& group) { return largest_of(call, group); }));
}

AbsTensor reduced_max(RangeCall& call, const AbsTensor& x, const Reduced& reduced) {
  const DType dtype = call.out_dtype(0);
  if (reduces_nothing(x, reduced.axes)) {
    call.site("FN306", 0, {}, true, true);
    return reduced_cells(x, reduced.axes, reduced.keep, dtype, [](const Group&) { return Range{}; });
  }
  AbsTensor result =
      reduced_cells(x, reduced.axes, reduced.keep, dtype, [&](const Group& group) { return largest_of(call, group); });
  add_lowest(call, x, result);
  if (may_pass_over_nan(call, x)) return result;
  RelationWriter relations(x, reduced, result);
  relations.add(Of::largest, Order::equal);
  relations.add_sizes();
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (rows.of != Of::largest || !relations.known() || (rows.axes & ~relations.axes()) != 0) continue;
    // The largest element is a number of the format: so are the ends of where it lies. NaN is no matter of the
    // relation.
    Range known = rows.in;
    known.lo = is_float(dtype) ? round_to(dtype, known.lo) : known.lo;
    known.hi = is_float(dtype) ? round_to(dtype, known.hi) : known.hi;
    known.nan = true;
    for (Range& cell : result.cells) cell = meet(cell, known);
  }
  return result;
}

void range_reduce_min(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  const std::optional<Reduced> reduced = reduced_of(call);
  const bool nothing = reduced && reduces_nothing(x, reduced->axes);
  if (nothing) call.site("FN306", 0, {}, true, true);
  else ask_for_elements(call, x, reduced);
  // The smallest is the negated largest of the negated.
  const auto flipped = [](const Range& range) {
    Range result = range;
    result.lo = -range.hi;
    result.hi = -range.lo;
    std::swap(result.pinf, result.ninf);
    return result;
  };
  AbsTensor result = reduce(call, reduced, [&](const Group& group) {
    return nothing ? Range{} : flipped(largest_of(call, mapped_parts(group, flipped)));
  });
  result.dtype = dtype;
  if (!nothing && !may_pass_over_nan(call, x)) RelationWriter(x, reduced, result).add(Of::smallest, Order::equal);
  call.out(0, std::move(result));
}

// ---- products ----------------------------------------------------------------

namespace {

// Products of magnitudes over a group, each bound for the worst number of repetitions. Every multiplication rounds
// once, except those by 1; an element of at most 1 never makes a product larger.
struct Products {
  double largest = 1;    // of the largest magnitudes
  double smallest = 1;   // of the smallest ones
  double growing = 1;    // of those above 1 only: what a partial product can reach
  double shrinking = 1;  // of those below 1 only
  bool negative = false, zero = false;
};

Products products_of(const Group& group, double u) {
  Products result;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    const double large = part.each.magnitude();
    const double small = part.each.may_be_zero() ? 0 : absolute(DType::float64, part.each.finite()).lo;
    const double up = large == 1 ? 1 : large * (1 + 2 * u);
    const double down = small == 1 ? 1 : small * (1 - 2 * u);
    const double least = part.count * group.least, most = part.count * group.most;
    result.largest *= std::pow(up, up > 1 ? most : least);
    result.smallest *= std::pow(down, down > 1 ? least : most);
    result.growing *= std::pow(std::max(up, 1.0), most);
    result.shrinking *= std::pow(std::min(down, 1.0), most);
    result.negative |= part.each.may_be_negative();
    result.zero |= part.each.may_be_zero();
  }
  return result;
}

// A partial product that underflows is lost for good.
bool may_underflow(const Products& at, DType carrier) {
  return is_float(carrier) && !(at.shrinking >= std::ldexp(2.0, float_format(carrier).min_exponent));
}

bool all_integers(const Group& group) {
  return std::ranges::all_of(group.parts, [](const Part& part) { return part.each.integer; });
}

// Below the smallest normal number a product is rounded by up to half the smallest one, and what was rounded up is
// multiplied on: products of 0.55 stay at the smallest number for ever.
double rounded_up(const Products& at, DType carrier, double terms) {
  const double normal = std::ldexp(1.0, float_format(carrier).min_exponent);
  return std::min(normal, terms / 2 * min_subnormal(carrier)) * at.growing;
}

Range finite_product(DType dtype, DType carrier, const Group& group) {
  const bool integers = all_integers(group);
  Products at = products_of(group, 0);
  const bool exact = group.most_count() == 1 || (integers && at.growing * unit_roundoff(carrier) <= 1);
  if (!exact) at = products_of(group, unit_roundoff(carrier));
  const bool underflow = !exact && may_underflow(at, carrier);
  const double slack = exact && at.largest < 0x1p53 ? 0 : 0x1p-46;  // of pow and the products here
  const double smallest = underflow ? 0 : at.smallest * (1 - slack);
  const double stuck = underflow ? rounded_up(at, carrier, group.most_count()) : 0;
  const double largest = (at.largest + stuck) * (1 + slack);
  Range result = from_bounds(dtype, at.negative ? -largest : smallest, largest);
  result.integer |= integers && result.has_finite();
  if (!is_float(carrier) || group.most_count() == 1) return result;
  const bool overflow = at.growing * (1 + slack) > max_finite(carrier);
  result.pinf |= overflow;
  result.ninf |= overflow && at.negative;
  result.nan |= overflow && (at.zero || underflow);
  return result;
}

Range product_of(DType dtype, DType carrier, const Group& group) {
  Range special;
  bool finite = true;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    if (part.each.is_empty()) return {};
    finite &= part.each.has_finite();
    special.nan |= part.each.nan;
    special.pinf |= part.each.pinf || part.each.ninf;
  }
  Range result = finite ? finite_product(dtype, carrier, group) : Range{};
  if (special.pinf) {
    const Products at = products_of(group, unit_roundoff(carrier));
    result.pinf = true;
    result.ninf |= at.negative;
    result.nan |= at.zero || may_underflow(at, carrier);
  }
  result.nan |= special.nan;
  return result;
}

}  // namespace

void range_reduce_product(RangeCall& call) {
  const std::optional<Reduced> reduced = reduced_of(call);
  AbsTensor result = reduce_carried(call, reduced, [](DType dtype, DType carrier, const Group& group) {
    return group.surely_empty() ? point(1) : product_of(dtype, carrier, group);
  });
  join_with_nothing(call.in(0), reduced, 1, result);
  call.out(0, std::move(result));
}

}  // namespace finity
