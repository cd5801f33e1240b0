#include "ops/elementwise/select_range.h"

#include <algorithm>
#include <iterator>

#include "domain/row_bounds.h"
#include "ops/elementwise/binary_range.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "ops/shared/relations.h"

namespace finity {

namespace {

// Where the condition may be `truth`, the operand; elsewhere nothing.
Range chosen(const Range& condition, const Range& operand, bool truth) {
  const bool never = truth ? !(condition.hi >= 1) : !(condition.lo <= 0);
  return condition.has_finite() && never ? Range{} : operand;
}

// A mask with a true element in every row takes at least one element of the first operand
// (`truth`), or one with a false element of the second.
void carry_mask(const AbsTensor& mask, bool truth, const AbsTensor& taken, AbsTensor& result) {
  const double wanted = truth ? 1 : 0;
  carry_row_elements(mask, result, [&](const Range& element) {
    return element.is_point() && element.lo == wanted ? taken.hull() : Range{};
  });
}

// Where the condition takes operand `i` away, which was -Inf there, the result is nowhere below the operand, nor below
// what that is at least: Where(IsInf(max), 0, max).
Relations raised_relations(const RangeCall& call, std::size_t i) {
  const AbsTensor& x = call.in(i);
  if (!x.hull().ninf || call.hull(3 - i).nan || !keeps_shape_of(call, i)) return {};
  Relations orders = lower_bounds(x);
  std::erase_if(orders, [](const Relation& bound) { return std::get<AggregateBound>(bound).of != Of::largest; });
  if (orders.empty()) return {};
  const Range away = call.assuming(i, 0, i == 2).hull();
  return away.has_finite() || away.pinf || away.nan ? Relations{} : orders;
}

}  // namespace

void range_where(RangeCall& call) {
  const AbsTensor& condition = call.in(0);
  const Type& type = call.out_type(0);
  const DType dtype = call.out_dtype(0);
  const Range decided = condition.hull();
  if (decided.is_point()) {
    const std::size_t taken = decided.lo != 0 ? 1 : 2;
    if (keeps_shape_of(call, taken)) return call.same(0, taken);
  }
  Relations raised = raised_relations(call, 1);
  std::ranges::copy(raised_relations(call, 2), std::back_inserter(raised));
  // What is decided last stays decided.
  const AbsTensor yes = call.assuming(1, 0, true);
  const AbsTensor no = call.assuming(2, 0, false);
  if (!type.ranked || !condition.ranked || !yes.ranked || !no.ranked) {
    return call.out(0, join(chosen(decided, yes.hull(), true), chosen(decided, no.hull(), false)));
  }
  const Dims sizes = sizes_of(type);
  const auto pick = [&](const AbsTensor& operand, bool truth) {
    return zip_cells(condition, operand, dtype, sizes, call.max_cells(),
                     [&](const Range& c, const Range& x) { return chosen(c, x, truth); });
  };
  AbsTensor result = zip_cells(pick(yes, true), pick(no, false), dtype, sizes, call.max_cells(),
                               [](const Range& a, const Range& b) { return join(a, b); });
  result.relations = std::move(raised);
  carry_mask(condition, true, yes, result);
  carry_mask(condition, false, no, result);
  call.out(0, std::move(result));
}

namespace {

template <class F>
AbsTensor folded(RangeCall& call, F f) {
  const Type& type = call.out_type(0);
  const DType dtype = call.out_dtype(0);
  AbsTensor result = call.in(0);
  result.relations.clear();
  result.forms.clear();
  result.first_symbol = -1;
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    if (type.ranked) result = zip_cells(result, call.in(i), dtype, sizes_of(type), call.max_cells(), f);
    else result = uniform(type, f(result.hull(), call.hull(i)));
  }
  return result;
}

bool is_zero(const AbsTensor& x) {
  const Range hull = x.hull();
  return hull.is_point() && hull.lo == 0;
}

// The largest of some values is at least each, and at least what each is at least; the smallest likewise.
void add_order(const RangeCall& call, bool largest, AbsTensor& result) {
  if (!result.ranked) return;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const AbsTensor& operand = call.in(i);
    if (!operand.ranked) continue;
    const Relations bounds = largest ? relations_not_below(operand) : relations_not_above(operand);
    const bool same_shape = keeps_shape_of(call, i);
    for (const AggregateBound& bound : each<AggregateBound>(bounds)) {
      if (bound.source.aligned || same_shape) result.relations.push_back(bound);
    }
  }
}

// Zero is known by its value, others by their identity.
void add_maximum(const RangeCall& call, AbsTensor& result) {
  constexpr std::size_t kMostOperands = 16;
  if (!result.ranked || call.input_count() > kMostOperands) return;
  MaximumOf maximum;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const bool zero = is_zero(call.in(i));
    if (!zero && !call.in(i).identity.valid()) return;
    maximum.operands.push_back(zero ? ValueId{} : call.in(i).identity);
  }
  result.relations.push_back(std::move(maximum));
}

// max(x, 0) is the positive part of x.
void positive_form(RangeCall& call, AbsTensor& result) {
  if (call.input_count() != 2 || !call.settings().affine) return;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const AbsTensor& x = call.in(i);
    if (!is_zero(call.in(1 - i)) || x.cells.size() != result.cells.size() || !keeps_shape_of(call, i)) continue;
    result.forms.resize(x.cells.size());
    for (std::size_t k = 0; k < x.cells.size(); ++k) {
      const Form own = !x.forms.empty()      ? x.forms[k]
                       : x.first_symbol >= 0 ? symbol_form(x.first_symbol + static_cast<Sym>(k))
                                             : Form{};
      result.forms[k] = positive_part(own, call.symbols());
    }
    return;
  }
}

}  // namespace

void range_max(RangeCall& call) {
  if (call.input_count() == 1) return call.same(0, 0);
  AbsTensor result = folded(call, [](const Range& a, const Range& b) { return maximum(a, b); });
  add_order(call, true, result);
  add_maximum(call, result);
  positive_form(call, result);
  call.out(0, std::move(result));
}

void range_min(RangeCall& call) {
  if (call.input_count() == 1) return call.same(0, 0);
  AbsTensor result = folded(call, [](const Range& a, const Range& b) { return minimum(a, b); });
  add_order(call, false, result);
  call.out(0, std::move(result));
}

namespace {

// Nonnegative terms that include the one attained by their common maximum: the sum is at least that one.
void use_attained_terms(const RangeCall& call, AbsTensor& result) {
  double least = kInf;
  std::optional<CaseSplit> all;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.hull(i).nonnegative()) return;
    for (const CaseSplit& split : each<CaseSplit>(call.in(i).relations)) {
      if (all && all->operands != split.operands) continue;
      if (!all) all = split;
      all->when |= split.when;
      least = std::min(least, split.in.has_finite() ? split.in.lo : 0);
      break;
    }
  }
  for (Range& cell : result.cells) {
    if (cell.has_finite()) cell.lo = std::max(cell.lo, 0.0);
  }
  if (all && all->covers_all()) cap_below(result, least);
}

}  // namespace

namespace {

// The operands added in `accumulator`, divided by `divisor`, rounded into the dtype.
AbsTensor total_in(RangeCall& call, DType accumulator, double divisor) {
  const DType dtype = call.out_dtype(0);
  AbsTensor sum = folded(call, [&](const Range& a, const Range& b) { return add(accumulator, a, b); });
  for (Range& cell : sum.cells) {
    if (divisor != 1) cell = divide(accumulator, cell, point(divisor));
    const Range wide = cell;
    // Another order of adding rounds differently: a unit or so per operand.
    if (cell.has_finite()) cell = from_bounds(dtype, cell.lo, cell.hi, static_cast<int>(call.input_count()));
    cell.nan |= wide.nan;
    cell.pinf |= wide.pinf;
    cell.ninf |= wide.ninf;
  }
  sum.dtype = dtype;
  return sum;
}

void range_total(RangeCall& call, double divisor) {
  const std::vector<DType> accumulators = call.accumulators(call.out_dtype(0));
  AbsTensor result = total_in(call, accumulators.front(), divisor);
  for (std::size_t i = 1; i < accumulators.size(); ++i) {
    result = join(result, total_in(call, accumulators[i], divisor), call.max_cells());
  }
  if (divisor == 1) use_attained_terms(call, result);
  call.out(0, std::move(result));
}

}  // namespace

void range_sum(RangeCall& call) {
  if (call.input_count() == 1) return call.same(0, 0);
  if (call.input_count() == 2) return range_add(call);
  range_total(call, 1);
}

void range_mean(RangeCall& call) {
  if (call.input_count() == 1) return call.same(0, 0);
  range_total(call, static_cast<double>(call.input_count()));
}

}  // namespace finity
