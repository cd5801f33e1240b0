#include "ops/shared/range_rules.h"

#include <algorithm>
#include <numeric>

#include "domain/grid.h"
#include "ops/shared/legacy_broadcast.h"

namespace finity {

namespace {

// Every axis of `other` has size 1, or the size of x's.
bool broadcasts_into(const Type& other, const Type& x) {
  if (!other.ranked || !x.ranked || other.shape.size() > x.shape.size()) return false;
  const std::size_t more = x.shape.size() - other.shape.size();
  for (std::size_t i = 0; i < other.shape.size(); ++i) {
    const Dim& own = x.shape[more + i];
    const bool wide = own.known() && own.size != 1;
    if (other.shape[i].size != 1 && !wide && !surely_equal(other.shape[i], own)) return false;
  }
  return true;
}

}  // namespace

bool keeps_shape_of(const RangeCall& call, std::size_t i) {
  for (std::size_t other = 0; other < call.input_count(); ++other) {
    if (other != i && call.has_range(other) && !broadcasts_into(call.in_type(other), call.in_type(i))) return false;
  }
  return true;
}

Dims sizes_of(const Type& type) {
  Dims sizes;
  for (const Dim& dim : type.shape) sizes.push_back(dim.known() ? dim.size : -1);
  return sizes;
}

void range_unary(RangeCall& call, const std::function<Range(const Range&, DType)>& f) {
  const AbsTensor& x = call.in(0);
  const DType dtype = call.out_dtype(0);
  call.out(0, map_cells(x, dtype, [&](const Range& cell) { return f(cell, dtype); }));
}

namespace {

// Where the axes of an operand lie in a result of `rank`: numpy aligns the last ones.
std::size_t result_axis(const AbsTensor& x, std::size_t axis, std::size_t rank) { return axis + rank - x.rank(); }

bool alignable(const AbsTensor& x, const Dims& sizes) { return x.ranked && x.rank() <= sizes.size(); }

// The operand really varies along this axis of the result and can be cut where the result is.
bool spans(const AbsTensor& x, std::size_t axis, const Dims& sizes) {
  const std::int64_t size = sizes[result_axis(x, axis, sizes.size())];
  return size > 1 && x.sizes[axis] == size;
}

void collect_cuts(const AbsTensor& x, const Dims& sizes, std::vector<Cuts>& cuts) {
  if (x.cuts.empty()) return;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (x.cuts[axis].empty() || !spans(x, axis, sizes)) continue;
    Cuts& target = cuts[result_axis(x, axis, sizes.size())];
    Cuts merged;
    std::ranges::set_union(target, x.cuts[axis], std::back_inserter(merged));
    target = std::move(merged);
  }
}

// The operand repeated over the result's grid. Where an operand of unknown size meets cuts, its form is lost.
AbsTensor spread(const AbsTensor& x, const AbsTensor& grid, Symbols* symbols) {
  const std::size_t rank = grid.rank();
  std::vector<Cuts> own(x.rank());
  bool loses_forms = false;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::size_t target = result_axis(x, axis, rank);
    // Blocks along an axis whose size the result does not state have no place in its grid.
    if (x.blocks(axis) > 1 && !spans(x, axis, grid.sizes)) return spread(smashed(x), grid, symbols);
    if (grid.cuts[target].empty()) continue;
    if (spans(x, axis, grid.sizes)) own[axis] = grid.cuts[target];
    else if (x.sizes[axis] != 1) loses_forms = true;
  }
  const AbsTensor fine = refined(x, own, loses_forms ? nullptr : symbols);
  // How far one block of the result is in the operand's cells; not at all along axes it is repeated over.
  std::vector<std::size_t> step(rank, 0);
  std::size_t stride = 1;
  for (std::size_t axis = x.rank(); axis-- > 0;) {
    if (fine.blocks(axis) > 1) step[result_axis(x, axis, rank)] = stride;
    stride *= fine.blocks(axis);
  }
  AbsTensor result = grid;
  result.dtype = x.dtype;
  result.cells.clear();
  const bool forms = symbols != nullptr && !loses_forms;
  for_each_place(block_counts(grid), [&](const std::vector<std::size_t>& place) {
    const std::size_t source = std::inner_product(place.begin(), place.end(), step.begin(), std::size_t{0});
    result.cells.push_back(fine.cells[source]);
    if (!forms) return;
    if (!fine.forms.empty()) result.forms.push_back(fine.forms[source]);
    else if (fine.first_symbol >= 0) result.forms.push_back(symbol_form(fine.first_symbol + static_cast<Sym>(source)));
    else result.forms.emplace_back();
  });
  return result;
}

AbsTensor unranked_operand(const AbsTensor& x, bool whole) {
  AbsTensor result = smashed(x);
  result.sizes.clear();
  result.cuts.clear();
  result.ranked = false;
  result.forms.clear();
  // One element for all: the form is only that of the element at the same index if shapes agree.
  if (!whole) result.first_symbol = -1;
  return result;
}

AbsTensor common_grid(const AbsTensor& a, const AbsTensor& b, const Dims& sizes) {
  AbsTensor grid;
  grid.ranked = true;
  grid.sizes = sizes;
  grid.cuts.resize(sizes.size());
  collect_cuts(a, sizes, grid.cuts);
  collect_cuts(b, sizes, grid.cuts);
  std::size_t count = 1;
  for (const Cuts& cuts : grid.cuts) count *= cuts.size() + 1;
  grid.cells.assign(count, {});
  return grid;
}

bool same_grid(const AbsTensor& a, const AbsTensor& b, const Dims& sizes) {
  return a.ranked && b.ranked && !a.cut() && !b.cut() && a.rank() <= sizes.size() && b.rank() <= sizes.size();
}

AbsTensor one_cell(const AbsTensor& x, const Dims& sizes) {
  AbsTensor result;
  result.dtype = x.dtype;
  result.ranked = true;
  result.sizes = sizes;
  result.cells = x.cells;
  if (!x.forms.empty()) result.forms = x.forms;
  else result.forms.push_back(x.first_symbol >= 0 ? symbol_form(x.first_symbol) : Form{});
  return result;
}

}  // namespace

std::pair<AbsTensor, AbsTensor> aligned(const AbsTensor& a, const AbsTensor& b, const Dims& sizes, Symbols& symbols,
                                        std::size_t max_cells) {
  if (!alignable(a, sizes) || !alignable(b, sizes)) return {unranked_operand(a, false), unranked_operand(b, false)};
  if (same_grid(a, b, sizes)) return {one_cell(a, sizes), one_cell(b, sizes)};
  const AbsTensor grid = common_grid(a, b, sizes);
  // Cuts of both may multiply; past this the finer operand is given up.
  if (grid.cells.size() > 16 * max_cells) {
    const bool left = a.cells.size() < b.cells.size();
    return aligned(left ? a : smashed(a), left ? smashed(b) : b, sizes, symbols, max_cells);
  }
  return {spread(a, grid, &symbols), spread(b, grid, &symbols)};
}

AbsTensor zip_cells(const AbsTensor& a, const AbsTensor& b, DType out_dtype, const Dims& sizes, std::size_t max_cells,
                    const std::function<Range(const Range&, const Range&)>& f) {
  AbsTensor result;
  if (!alignable(a, sizes) || !alignable(b, sizes)) {
    result.cells = {f(a.hull(), b.hull())};
    result.dtype = out_dtype;
    return result;
  }
  result = common_grid(a, b, sizes);
  if (result.cells.size() > 16 * max_cells) return zip_cells(smashed(a), smashed(b), out_dtype, sizes, max_cells, f);
  result.dtype = out_dtype;
  if (result.cells.size() == 1) {
    result.cells = {f(a.hull(), b.hull())};
    result.cuts.clear();
    return result;
  }
  const AbsTensor left = spread(a, result, nullptr);
  const AbsTensor right = spread(b, result, nullptr);
  for (std::size_t i = 0; i < result.cells.size(); ++i) result.cells[i] = f(left.cells[i], right.cells[i]);
  simplify(result, max_cells);
  return result;
}

void range_binary(RangeCall& call, const std::function<Range(const Range&, const Range&, DType)>& f) {
  const DType dtype = call.out_dtype(0);
  const auto pair = [&](const Range& a, const Range& b) { return f(a, b, dtype); };
  const Type& type = call.out_type(0);
  // Before opset 7 the second operand's axes were placed by an attribute.
  if (!type.ranked || broadcasts_legacy(call)) {
    call.out(0, uniform(type, pair(call.hull(0), call.hull(1))));
    return;
  }
  call.out(0, zip_cells(call.in(0), call.in(1), dtype, sizes_of(type), call.max_cells(), pair));
}

void range_same(RangeCall& call) { call.same(0, 0); }

void range_shuffled(RangeCall& call) { call.out(0, uniform(call.out_type(0), call.hull(0))); }

void range_top(RangeCall& call) {
  for (std::size_t i = 0; i < call.output_count(); ++i) call.top(i);
}

void range_bool(RangeCall& call) {
  for (std::size_t i = 0; i < call.output_count(); ++i) call.out(i, Range{.lo = 0, .hi = 1, .integer = true});
}

}  // namespace finity
