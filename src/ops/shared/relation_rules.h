// Elementwise rules that keep more than cells: what an elementwise function does to
// the relations of its operand, the order of operand and result, and forms.
#pragma once

#include <functional>
#include <vector>

#include "ops/table/range_call.h"

namespace finity {

// Elementwise, output 0 from input 0: f on every cell and on the relations.
void range_mapped(RangeCall& call, Monotone monotone, const std::function<Range(const Range&, DType)>& f);

// Relations of a value that is nowhere below `x` (Relu, Abs, a lower clip): that, and what x itself is at least.
Relations relations_not_below(const AbsTensor& x);
Relations relations_not_above(const AbsTensor& x);
// What bounds x from below, as such: the bounds that stay true of anything larger.
Relations lower_bounds(const AbsTensor& x);
Relations upper_bounds(const AbsTensor& x);

// Adds relations of -x, where x is max(y, 0): 0 where 0 is the larger.
void add_negated_maximum(const AbsTensor& x, AbsTensor& result);
// Relations of max(x, 0).
Relations positive_part_relations(const AbsTensor& x);

// One form per cell: the tensor's own, or its cells' symbols; empty when there are neither.
std::vector<Form> forms_of(const AbsTensor& x);
// Every cell's form mapped; empty when no form is left.
std::vector<Form> mapped_forms(const AbsTensor& x, const std::function<Form(const Form&, std::size_t cell)>& f);

// Table entries: functions of function_range.h.
//   .range = range_rising<exp_of>          relations of rows go along
//   .range = range_elementwise<sin_of>
template <Range (*F)(DType, const Range&, int)>
void range_rising(RangeCall& call) {
  range_mapped(call, Monotone::increasing, [&](const Range& x, DType dtype) { return F(dtype, x, call.ulps()); });
}
template <Range (*F)(DType, const Range&, int)>
void range_elementwise(RangeCall& call) {
  range_mapped(call, Monotone::no, [&](const Range& x, DType dtype) { return F(dtype, x, call.ulps()); });
}

}  // namespace finity
