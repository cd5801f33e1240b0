#include "ops/shared/sum_facts.h"

#include <algorithm>

#include "ops/shared/range_rules.h"
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

// ---- facts of sums -----------------------------------------------------------

namespace {

constexpr std::size_t kMostFacts = 12;

}  // namespace

void carry_lower_facts(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, AbsTensor& result) {
  if (!y.hull().nonnegative() || y.hull().pinf) return;
  const bool same_shape = keeps_shape(call, x);
  for (const Fact& fact : x.facts) {
    using Kind = Fact::Kind;
    if (result.facts.size() >= kMostFacts) return;  // long sums
    if (!fact.aligned && !same_shape) continue;     // which axis is missing is no longer known
    if (fact.kind == Kind::max_of) {
      Fact weaker = fact;
      weaker.kind = Kind::at_least;
      result.facts.push_back(weaker);
    }
    if (fact.kind == Kind::at_least || fact.kind == Kind::at_least_abs || fact.kind == Kind::norm_at_least)
      result.facts.push_back(fact);
    if (call.settings().flush_subnormals) continue;  // squares of small numbers may vanish altogether
    if (fact.kind == Kind::mean_square_of && fact.slack >= 1 && fact.slack < 1e9 && y.hull().lo > 0) {
      // `slack` was the number of elements.
      Fact raised = fact;
      raised.kind = Kind::mean_square_at_least;
      raised.total = static_cast<int>(fact.slack);
      raised.slack = 0;
      for (const DType accumulator : call.accumulators(x.dtype)) {
        raised.slack = std::max(raised.slack, summation_error(accumulator, fact.slack + 4));
      }
      raised.slack += square_error(call, x.dtype);
      raised.range = point(y.hull().lo);
      result.facts.push_back(raised);
    }
    if (fact.kind == Kind::square_of && fact.source.valid() && is_float(x.dtype) && y.hull().lo > 0) {
      // A sum of one square, kept away from zero.
      result.facts.push_back({.kind = Kind::square_sum_of,
                              .source = fact.source,
                              .slack = 2 * unit_roundoff(x.dtype) + fact.lost,
                              .lost = 2 * unit_roundoff(x.dtype) + fact.lost,
                              .range = point(y.hull().lo)});
    }
    if (fact.kind == Kind::square_sum_of) {
      Fact raised = fact;
      if (y.hull().lo > 0) raised.range = point(y.hull().lo);  // see root_facts
      result.facts.push_back(raised);
    }
  }
}

void carry_row_max(const RangeCall& call, const AbsTensor& x, const AbsTensor& y, bool minus, AbsTensor& result) {
  if (!result.ranked || !x.ranked || result.rank() > 32 || x.rank() > result.rank()) return;
  const DType dtype = call.out_dtype(0);
  const Range other = y.hull();
  // It may be just the largest element that is taken away.
  if (other.nan || (minus ? other.pinf : other.ninf)) return;
  for (const Fact& fact : x.facts) {
    if (fact.kind != Fact::Kind::row_max) continue;
    Fact moved = fact;
    moved.axes = fact.axes << (result.rank() - x.rank());  // repeated along other axes it is still there
    moved.range = minus ? subtract(dtype, fact.range, other) : add(dtype, fact.range, other);
    // The row's new largest element may be another one: only the lower end is the old one's.
    moved.range = {.lo = moved.range.lo,
                   .hi = std::max(moved.range.hi, result.hull().hi),
                   .nan = moved.range.nan,
                   .pinf = moved.range.pinf || result.hull().pinf,
                   .ninf = moved.range.ninf};
    result.facts.push_back(moved);
  }
}

void use_one_of_max(const AbsTensor& a, const AbsTensor& b, DType dtype, AbsTensor& result) {
  for (const Fact& left : a.facts) {
    if (left.kind != Fact::Kind::one_of_max) continue;
    const Fact* right = find_fact(b.facts, Fact::Kind::one_of_max, left.source);
    if (right == nullptr || right->total != left.total) continue;
    const std::uint32_t both = left.axes | right->axes;
    Fact sum = left;
    sum.axes = both;
    sum.range = join(add(dtype, left.range, b.hull()), add(dtype, a.hull(), right->range));
    if (both == (1U << left.total) - 1) {
      if (!sum.range.ninf && sum.range.has_finite()) cap_below(result, sum.range.lo);
    } else {
      result.facts.push_back(sum);
    }
  }
}

// ---- facts of differences ----------------------------------------------------

namespace {

// By how much a relation may be missed: in narrow formats it may be known up to a rounding only.
double leeway(const Fact& fact, const AbsTensor& a, const AbsTensor& b) {
  return fact.slack * (a.hull().magnitude() + b.hull().magnitude()) + fact.lost;
}

// Numbers of the format around zero that reach this far.
Range around_zero(DType dtype, double reach) { return reach == 0 ? point(0) : from_bounds(dtype, -reach, reach, 1); }

const Fact* order_of(const AbsTensor& greater, const AbsTensor& smaller) {
  using Kind = Fact::Kind;
  if (const Fact* fact = related(greater, Kind::at_least, smaller)) return fact;
  if (const Fact* fact = related(greater, Kind::max_of, smaller)) return fact;
  return related(smaller, Kind::at_most, greater);
}

// a is at least, and b at most, the elements of a third value: the maximum of a row less its minimum.
bool between(const AbsTensor& a, const AbsTensor& b) {
  using Kind = Fact::Kind;
  if (!a.ranked || !b.ranked || a.sizes != b.sizes) return false;
  return std::ranges::any_of(a.facts, [&](const Fact& upper) {
    const bool above = upper.kind == Kind::max_of || upper.kind == Kind::at_least;
    if (!above || !upper.aligned || !upper.source.valid() || upper.slack > 0) return false;
    const Fact* lower = find_fact(b.facts, Kind::at_most, upper.source);
    return lower != nullptr && lower->aligned && lower->axes == upper.axes && lower->slack == 0;
  });
}

}  // namespace

void use_order(const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const bool finite = !b.hull().pinf && !b.hull().ninf;
  if (!finite) return;
  const auto reach = [&](const Fact& fact) { return around_zero(result.dtype, leeway(fact, a, b)); };
  if (const Fact* below = order_of(b, a); below != nullptr && reach(*below).is_finite())
    cap_above(result, reach(*below).hi);
  if (const Fact* above = order_of(a, b); above != nullptr && reach(*above).is_finite())
    cap_below(result, reach(*above).lo);
  if (between(a, b)) cap_below(result, 0);
}

void set_max_facts(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  const Fact* max = related(b, Fact::Kind::max_of, a);
  if (max != nullptr && keeps_shape(call, a) && !b.hull().pinf && !b.hull().ninf) {
    const Range largest = around_zero(result.dtype, leeway(*max, a, b));
    result.facts.push_back({.kind = Fact::Kind::row_max, .axes = max->axes, .range = largest});
  }
  for (const Fact& fact : b.facts) {
    if (fact.kind != Fact::Kind::max_operand || !b.hull().is_finite()) continue;
    const bool this_one = fact.source.valid() ? fact.source == a.identity : constant_of(a) == 0.0;
    if (!this_one) continue;
    result.facts.push_back({.kind = Fact::Kind::one_of_max,
                            .source = b.identity,
                            .axes = 1U << fact.axes,
                            .range = around_zero(result.dtype, leeway(fact, a, b)),
                            .total = fact.total});
  }
}

void use_variance(const RangeCall& call, const AbsTensor& a, const AbsTensor& b, AbsTensor& result) {
  if (!is_float(result.dtype) || call.settings().flush_subnormals) return;
  if (!keeps_shape(call, a) || !keeps_shape(call, b)) return;
  const Fact* mean_square = find_fact(a.facts, Fact::Kind::mean_square_of);
  const Fact* squared = find_fact(b.facts, Fact::Kind::square_of);
  if (mean_square == nullptr || squared == nullptr) return;
  // The square of a mean says which mean in `total`, see range_square.
  if (squared->total != mean_square->source.index + 1 || squared->axes != mean_square->axes) return;
  const DType dtype = call.out_dtype(0);
  const double terms = std::max(mean_square->slack, squared->slack);
  double relative = 0;
  for (const DType accumulator : call.accumulators(dtype)) {
    relative = std::max(relative, summation_error(accumulator, terms + 4) + square_error(call, dtype));
  }
  const double size = a.hull().magnitude() + b.hull().magnitude();
  const double slack = 3 * relative * size + 4 * min_subnormal(dtype);
  if (const Range below = from_bounds(dtype, -slack, 0); below.is_finite()) cap_below(result, below.lo);
}

}  // namespace finity
