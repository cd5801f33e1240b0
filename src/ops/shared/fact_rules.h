// Elementwise rules that keep more than cells: what an elementwise function does to
// the facts of its operand, order facts between operand and result, and forms.
#pragma once

#include <functional>
#include <vector>

#include "ops/table/range_call.h"

namespace finity {

enum class Monotone : std::uint8_t { no, increasing };

// The facts of f(x) that follow from those of x:
//   row_max     the largest of a row goes to the largest, when f increases
//   one_of_max  wherever an element lies in the range, its image lies in the image
// f maps ranges soundly, NaN and infinities included.
Facts mapped_facts(const Facts& facts, Monotone monotone, const std::function<Range(const Range&)>& f);
// Rows of f(x), f falling: the largest element becomes the smallest. NaN is no matter of these.
Facts falling_rows(const Facts& facts, const std::function<Range(const Range&)>& f);

// Elementwise, output 0 from input 0: f on every cell and on the facts.
void range_mapped(RangeCall& call, Monotone monotone, const std::function<Range(const Range&, DType)>& f);

// Facts of a value that is nowhere below `x` (Relu, Abs, a lower clip): at_least, and what x itself is at least.
Facts facts_not_below(const AbsTensor& x);
Facts facts_not_above(const AbsTensor& x);  // at_most, likewise

// Adds facts of -x, where x is max(y, 0): 0 where 0 is the larger.
void set_negated_max_facts(const AbsTensor& x, AbsTensor& result);
// Facts of max(x, 0).
Facts positive_part_facts(const AbsTensor& x);

// One form per cell: the tensor's own, or its cells' symbols; empty when there are neither.
std::vector<Form> forms_of(const AbsTensor& x);
// Every cell's form mapped; empty when no form is left.
std::vector<Form> mapped_forms(const AbsTensor& x, const std::function<Form(const Form&, std::size_t cell)>& f);

// Table entries: functions of function_range.h.
//   .range = range_rising<exp_of>          facts of rows go along
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
