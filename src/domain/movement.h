// Data movement on abstract tensors: every element of the result is an element of
// an operand (or a stated filler), so ranges, forms and grids move along. Each
// function gives a sound smashed result where sizes or positions are unknown.
#pragma once

#include <span>
#include <vector>

#include "domain/abs_tensor.h"

namespace finity {

AbsTensor transposed(const AbsTensor& x, std::span<const std::size_t> perm, Symbols& symbols);
// Elements [start, start + length) along an axis with step 1, positions known.
AbsTensor sliced(const AbsTensor& x, std::size_t axis, std::int64_t start, std::int64_t length, Symbols& symbols);
// Any selection along an axis: all cells of that axis are joined. `movement` describes it exactly for forms
// ("" when it cannot: forms are dropped); `size` is the new size, -1 if unknown.
AbsTensor selected(const AbsTensor& x, std::size_t axis, std::int64_t size, const std::string& movement,
                   Symbols& symbols);
// Without `symbols`, forms survive only where the parts have the same grid along the other axes.
AbsTensor concatenated(std::span<const AbsTensor* const> parts, std::size_t axis, const Dims& sizes,
                       std::size_t max_cells, Symbols* symbols = nullptr);
// Axes of size 1 inserted at / removed from these (final resp. original) positions.
AbsTensor unsqueezed(const AbsTensor& x, std::span<const std::size_t> axes, Symbols& symbols);
AbsTensor squeezed(const AbsTensor& x, std::span<const std::size_t> axes, Symbols& symbols);
// The elements at these positions (0 <= index < size, which is known) of an axis. `text` describes a long list exactly
// ("": it cannot).
AbsTensor gathered(const AbsTensor& x, std::size_t axis, std::span<const std::int64_t> indices, const std::string& text,
                   std::size_t max_cells, Symbols& symbols);
// An axis replaced by axes of these sizes, each element any element of the old axis, as `movement` says exactly ("": it
// cannot).
AbsTensor looked_up(const AbsTensor& x, std::size_t axis, const Dims& sizes, const std::string& movement,
                    Symbols& symbols);
// Row-major reshape to `sizes`. Cuts survive where axes correspond (also merged or split around a leading block axis).
AbsTensor reshaped(const AbsTensor& x, const Dims& sizes, Symbols& symbols);
// The same where sizes may be unknown but equal: dimensions with the same symbol correspond.
AbsTensor reshaped(const AbsTensor& x, const Shape& from, const Shape& to, Symbols& symbols);
// One axis seen as several, row-major, whatever the sizes of the others.
AbsTensor split_axis(const AbsTensor& x, std::size_t axis, const Dims& sizes, Symbols& symbols);
// numpy broadcasting to `sizes`; grids and forms survive.
AbsTensor broadcasted(const AbsTensor& x, const Dims& sizes, Symbols& symbols);
// Every element of the result is some element of x: one cell with the hull.
AbsTensor shuffled(const AbsTensor& x, const Type& type);

}  // namespace finity
