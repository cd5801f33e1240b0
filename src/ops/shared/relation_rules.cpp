#include "ops/shared/relation_rules.h"

#include <algorithm>

namespace finity {

void range_mapped(RangeCall& call, Monotone monotone, const std::function<Range(const Range&, DType)>& f) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  const auto of_range = [&](const Range& range) { return f(range, dtype); };
  AbsTensor result = map_cells(x, dtype, of_range);
  result.relations = mapped(x.relations, monotone, of_range);
  call.out(0, std::move(result));
}

Relations lower_bounds(const AbsTensor& x) {
  Relations result;
  for (AggregateBound bound : each<AggregateBound>(x.relations)) {
    const bool sum = bound.of == Of::sum || bound.of == Of::mean || bound.of == Of::mean_square ||
                     bound.of == Of::squared_mean || bound.of == Of::smallest;
    if (sum || !bound.bounds_below()) continue;
    bound.order = Order::at_least;
    if (!implies(result, bound)) result.push_back(bound);
  }
  return result;
}

Relations upper_bounds(const AbsTensor& x) {
  Relations result;
  for (AggregateBound bound : each<AggregateBound>(x.relations)) {
    if (bound.of != Of::smallest || !bound.bounds_above()) continue;
    bound.order = Order::at_most;
    result.push_back(bound);
  }
  return result;
}

namespace {

Relations with_order(const AbsTensor& x, Of of, Order order, Relations rest) {
  if (x.identity.valid()) rest.insert(rest.begin(), AggregateBound{.source = {x.identity}, .of = of, .order = order});
  return rest;
}

}  // namespace

Relations relations_not_below(const AbsTensor& x) {
  return with_order(x, Of::largest, Order::at_least, lower_bounds(x));
}

Relations relations_not_above(const AbsTensor& x) {
  return with_order(x, Of::smallest, Order::at_most, upper_bounds(x));
}

Relations positive_part_relations(const AbsTensor& x) {
  Relations result = relations_not_below(x);
  if (x.identity.valid() && x.ranked) result.push_back(MaximumOf{.operands = {x.identity, ValueId{}}});
  return result;
}

std::vector<Form> forms_of(const AbsTensor& x) {
  if (!x.forms.empty() || x.first_symbol < 0) return x.forms;
  std::vector<Form> forms;
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) {
    forms.push_back(symbol_form(x.first_symbol + static_cast<Sym>(cell)));
  }
  return forms;
}

std::vector<Form> mapped_forms(const AbsTensor& x, const std::function<Form(const Form&, std::size_t)>& f) {
  std::vector<Form> forms = forms_of(x);
  for (std::size_t cell = 0; cell < forms.size(); ++cell) forms[cell] = f(forms[cell], cell);
  const auto valid = [](const Form& form) { return form.valid; };
  if (std::ranges::none_of(forms, valid)) forms.clear();
  return forms;
}

// -max(x, 0) is 0 where 0 is the larger.
void add_negated_maximum(const AbsTensor& x, AbsTensor& result) {
  if (!x.hull().is_finite()) return;
  for (const MaximumOf& maximum : each<MaximumOf>(x.relations)) {
    for (std::size_t i = 0; i < maximum.operands.size(); ++i) {
      if (maximum.operands[i].valid()) continue;
      result.relations.push_back(
          CaseSplit{.operands = maximum.operands, .when = std::uint32_t{1} << i, .in = point(0)});
    }
  }
}

}  // namespace finity
