// What stays of relations when rows are chosen, cut or joined, and when an
// elementwise function is applied to them. The largest or smallest element of a row
// is an element: wherever a function sends it, every row of the result has an
// element there. So masks keep "one true in every row".
#pragma once

#include <span>

#include "domain/abs_tensor.h"

namespace finity {

// Every row along rows.axes has an element in rows.in (rows with NaN left aside).
bool names_an_element(const RowBound& rows);

// Every row of x along `axes` has an element in `range`: adds what follows for its largest and smallest element, where
// the cells do not say it already.
void add_row_element(AbsTensor& x, AxisBits axes, const Range& range);

// An elementwise result of x and others of any shape: `image` gives where an element of x in that range may go.
template <class Image>
void carry_row_elements(const AbsTensor& x, AbsTensor& result, const Image& image) {
  if (!x.ranked || !result.ranked || x.rank() > result.rank() || result.rank() > 32 || x.hull().nan) return;
  for (const RowBound& rows : each<RowBound>(x.relations)) {
    if (names_an_element(rows)) add_row_element(result, rows.axes << (result.rank() - x.rank()), image(rows.in));
  }
}

// Relations of a tensor made of whole slices of x along an axis, in any order and number.
Relations relations_of_slices(const AbsTensor& x, std::size_t axis);
// The same where the axis becomes `count` axes.
Relations relations_of_slices(const AbsTensor& x, std::size_t axis, std::size_t count);
// Relations of a tensor made of some slices of x along an axis, none of them twice.
Relations relations_of_part(const AbsTensor& x, std::size_t axis);

// Adds the relations of tensors joined along an axis.
void add_joined_rows(std::span<const AbsTensor* const> parts, std::size_t axis, AbsTensor& result);

}  // namespace finity
