#include "ops/shared/fact_rules.h"

#include <algorithm>

namespace finity {

Facts mapped_facts(const Facts& facts, Monotone monotone, const std::function<Range(const Range&)>& f) {
  Facts result;
  for (const Fact& fact : facts) {
    const bool extreme = fact.kind == Fact::Kind::row_max || fact.kind == Fact::Kind::row_min;
    const bool rows = extreme && monotone == Monotone::increasing;
    if (!rows && fact.kind != Fact::Kind::one_of_max) continue;
    result.push_back(fact);
    result.back().range = f(fact.range);
  }
  return result;
}

Facts falling_rows(const Facts& facts, const std::function<Range(const Range&)>& f) {
  Facts result;
  for (const Fact& fact : facts) {
    const bool largest = fact.kind == Fact::Kind::row_max;
    if (!largest && fact.kind != Fact::Kind::row_min) continue;
    result.push_back(fact);
    result.back().kind = largest ? Fact::Kind::row_min : Fact::Kind::row_max;
    result.back().range = f(fact.range);
  }
  return result;
}

void range_mapped(RangeCall& call, Monotone monotone, const std::function<Range(const Range&, DType)>& f) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  const auto of_range = [&](const Range& range) { return f(range, dtype); };
  AbsTensor result = map_cells(x, dtype, of_range);
  result.facts = mapped_facts(x.facts, monotone, of_range);
  call.out(0, std::move(result));
}

namespace {

Facts ordered(const AbsTensor& x, Fact::Kind kind, std::initializer_list<Fact::Kind> kept) {
  Facts result;
  if (x.identity.valid()) result.push_back({.kind = kind, .source = x.identity});
  for (const Fact& fact : x.facts) {
    if (std::ranges::find(kept, fact.kind) != kept.end()) result.push_back(fact);
  }
  return result;
}

}  // namespace

Facts facts_not_below(const AbsTensor& x) {
  using Kind = Fact::Kind;
  return ordered(x, Kind::at_least, {Kind::at_least, Kind::at_least_abs, Kind::norm_at_least, Kind::square_sum_of});
}

Facts facts_not_above(const AbsTensor& x) { return ordered(x, Fact::Kind::at_most, {Fact::Kind::at_most}); }

Facts positive_part_facts(const AbsTensor& x) {
  Facts facts = facts_not_below(x);
  if (!x.identity.valid() || !x.ranked) return facts;
  facts.push_back({.kind = Fact::Kind::max_operand, .source = x.identity, .axes = 0, .total = 2});
  facts.push_back({.kind = Fact::Kind::max_operand, .source = {}, .axes = 1, .total = 2});
  return facts;
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
void set_negated_max_facts(const AbsTensor& x, AbsTensor& result) {
  for (const Fact& fact : x.facts) {
    if (fact.kind != Fact::Kind::max_operand || fact.source.valid() || !x.hull().is_finite()) continue;
    result.facts.push_back({.kind = Fact::Kind::one_of_max,
                            .source = x.identity,
                            .axes = 1U << fact.axes,
                            .range = point(0),
                            .total = fact.total});
  }
}

}  // namespace finity
