#include "ops/shared/row_tables.h"

#include <algorithm>

#include "base/error.h"
#include "domain/movement.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"

namespace finity {

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 16;

bool same_choice(const RowTable& a, const RowTable& b) {
  return a.index == b.index && a.index_rank == b.index_rank && a.behind == b.behind;
}

// A constant with the axes of the indices, along which it must not vary, made one.
std::optional<Tensor> as_table(const Tensor& constant, const RowTable& rows) {
  const std::size_t rank = constant.rank();
  if (rank <= rows.behind) return constant;
  const std::size_t first_behind = rank - rows.behind;
  const std::size_t first_index = first_behind - std::min(rows.index_rank, first_behind);
  Dims dims(constant.dims().begin(), constant.dims().begin() + static_cast<std::ptrdiff_t>(first_index));
  for (std::size_t axis = first_index; axis < first_behind; ++axis) {
    if (constant.dim(axis) != 1) return std::nullopt;
  }
  dims.push_back(1);
  dims.insert(dims.end(), constant.dims().end() - static_cast<std::ptrdiff_t>(rows.behind), constant.dims().end());
  return constant.reshaped(std::move(dims));
}

const RowTable* first_rows(const RangeCall& call) {
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_range(i) && call.in(i).rows) return call.in(i).rows.get();
  }
  return nullptr;
}

// The operands with one axis for the rows; nothing when one of them is neither rows nor a constant.
std::optional<std::vector<Datum>> tables_of(const RangeCall& call, const RowTable& rows) {
  std::vector<Datum> result(call.input_count());
  std::int64_t size = 1;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    const AbsTensor& x = call.in(i);
    std::optional<Tensor> table;
    if (x.rows && same_choice(*x.rows, rows)) table = *x.rows->table;
    else if (x.exact && x.exact->size() <= kMostElements) table = as_table(*x.exact, rows);
    if (!table) return std::nullopt;
    size = std::max(size, table->size()) * (size > 1 && table->size() > 1 && size != table->size() ? 8 : 1);
    if (size > kMostElements) return std::nullopt;
    result[i] = *table;
  }
  return result;
}

}  // namespace

void give_rows(RangeCall& call, std::size_t i, RowTable rows) {
  if (!call.has_output(i) || !call.given()[i]) return;
  AbsTensor& out = call.outs()[i];
  const Tensor& table = *rows.table;
  const bool fits = out.ranked && table.size() <= kMostElements && table.rank() > rows.behind &&
                    out.rank() == table.rank() - 1 + rows.index_rank;
  if (!fits || out.dtype != table.dtype()) return;
  const AbsTensor cells = looked_up(from_tensor(rows.table, call.max_cells()), rows.row_axis(),
                                    Dims(rows.index_rank, -1), "", call.symbols());
  out = meet(out, cells, call.max_cells(), &call.symbols());
  out.rows = std::make_shared<const RowTable>(std::move(rows));
}

void use_rows(RangeCall& call) {
  const RowTable* rows = first_rows(call);
  if (rows == nullptr || call.output_count() != 1 || call.settings().flush_subnormals) return;
  const OpDef& op = call.op();
  if (!op.traits.elementwise || !op.traits.exact || broadcasts_legacy(call)) return;
  const auto tables = tables_of(call, *rows);
  if (!tables) return;
  std::vector<Datum> results;
  try {
    results = fold(call.description(), *tables);
  } catch (const Error&) {
    return;  // the rule has said what can be said
  }
  const Tensor* result = results[0].tensor();
  if (result == nullptr) return;
  RowTable next = *rows;
  next.table = std::make_shared<const Tensor>(*result);
  give_rows(call, 0, std::move(next));
}

std::optional<std::size_t> axis_in_table(const AbsTensor& x, std::size_t axis) {
  const std::size_t from_end = x.rank() - axis;
  if (from_end <= x.rows->behind) return x.rows->table->rank() - from_end;
  if (axis < x.rows->row_axis()) return axis;
  return std::nullopt;
}

void move_rows(RangeCall& call, std::size_t i, std::size_t axis, int behind,
               const std::function<Tensor(const Tensor&, std::size_t)>& change) {
  const AbsTensor& x = call.in(0);
  if (!x.rows) return;
  const auto at = axis_in_table(x, axis);
  if (!at) return;
  RowTable next = *x.rows;
  next.table = std::make_shared<const Tensor>(change(*x.rows->table, *at));
  if (*at > x.rows->row_axis()) {
    next.behind = static_cast<std::size_t>(static_cast<std::int64_t>(next.behind) + behind);
  }
  give_rows(call, i, std::move(next));
}

}  // namespace finity
