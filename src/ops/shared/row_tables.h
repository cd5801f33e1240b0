// Rows of a known table chosen by unknown indices (see RowTable): what is computed
// from them elementwise, or cut from their columns, is computed for all rows at once.
#pragma once

#include <functional>
#include <optional>

#include "ops/table/range_call.h"

namespace finity {

// Output i consists of these rows; its cells become at least as tight as they are.
void give_rows(RangeCall& call, std::size_t i, RowTable rows);
// After an elementwise rule: when every operand is rows of the same index or a constant, so is the result.
void use_rows(RangeCall& call);

// Where an axis of x lies in its table; nothing for the axes of the indices.
std::optional<std::size_t> axis_in_table(const AbsTensor& x, std::size_t axis);
// Output i is input 0 changed along one axis, as `change` does it to a table (given the table's axis). `behind`: how
// many more axes there are behind the indices afterwards.
void move_rows(RangeCall& call, std::size_t i, std::size_t axis, int behind,
               const std::function<Tensor(const Tensor&, std::size_t)>& change);

}  // namespace finity
