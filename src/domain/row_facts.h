// What stays of the facts about rows (see facts.h) when rows are chosen, cut or
// joined, and when an elementwise function is applied to them. The largest or
// smallest element of a row is an element: wherever a function sends it, every row
// of the result has an element there. So masks keep "one true in every row".
#pragma once

#include <span>

#include "domain/abs_tensor.h"

namespace finity {

// Every row along fact.axes has an element in fact.range (rows with NaN left aside).
bool names_an_element(const Fact& fact);

// Every row of x along `axes` has an element in `range`: adds what follows for its largest and smallest element, where
// the cells do not say it already.
void add_row_element(AbsTensor& x, std::uint32_t axes, const Range& range);

// An elementwise result of x and others of any shape: `image` gives where an element of x in that range may go.
template <class Image>
void carry_row_elements(const AbsTensor& x, AbsTensor& result, const Image& image) {
  if (!x.ranked || !result.ranked || x.rank() > result.rank() || result.rank() > 32 || x.hull().nan) return;
  for (const Fact& fact : x.facts) {
    if (names_an_element(fact)) add_row_element(result, fact.axes << (result.rank() - x.rank()), image(fact.range));
  }
}

// Facts of a tensor made of whole slices of x along an axis, in any order and number.
Facts rows_of_slices(const AbsTensor& x, std::size_t axis);
// The same where the axis becomes `count` axes.
Facts rows_of_slices(const AbsTensor& x, std::size_t axis, std::size_t count);
// Facts of a tensor made of some slices of x along an axis, none of them twice.
Facts rows_of_part(const AbsTensor& x, std::size_t axis);

// Adds the facts of tensors joined along an axis.
void add_joined_rows(std::span<const AbsTensor* const> parts, std::size_t axis, AbsTensor& result);

}  // namespace finity
