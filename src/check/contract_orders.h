// Relations of a contract between inputs or between columns of an input.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "check/contract.h"

namespace finity {

// Adds relations to the premises' tensors, cuts columns, and tightens ranges by what the orders say.
void add_orders(const Graph& graph, const Types& types, std::span<const OrderContract> orders, Premises& premises);

// Makes each of these columns of the last axis (of known size) a block of its own.
void cut_columns(AbsTensor& x, const std::vector<std::int64_t>& columns);
// The cell that is exactly this column when no other axis is cut.
std::optional<std::size_t> column_cell(const AbsTensor& x, std::int64_t column);

}  // namespace finity
