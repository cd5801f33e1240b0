#include "domain/row_bounds.h"

#include <algorithm>

namespace finity {

namespace {

bool is_along(const RowBound& rows, std::size_t axis) { return axis < 32 && (rows.axes >> axis & 1U) != 0; }

// Long chains of masks would collect them without end.
constexpr std::ptrdiff_t kMostRowBounds = 8;

void add_once(AbsTensor& x, const Relation& rows) {
  if (implies(x.relations, rows)) return;
  if (std::ranges::count_if(x.relations, speaks_of_rows) < kMostRowBounds) x.relations.push_back(rows);
}

// Axes stay where they are.
std::vector<int> unmoved(const AbsTensor& x) {
  std::vector<int> to(x.rank());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<int>(i);
  return to;
}

AxisBits bit_of(std::size_t axis) { return axis < 32 ? AxisBits{1} << axis : 0; }

}  // namespace

bool names_an_element(const RowBound& rows) {
  return (rows.of == Of::largest || rows.of == Of::smallest) && !rows.in.nan;
}

void add_row_element(AbsTensor& x, AxisBits axes, const Range& range) {
  const Range all = x.hull();
  if (!x.ranked || range.nan || !range.has_finite()) return;
  if (!range.ninf && (all.ninf || range.lo > all.lo)) {
    const Range in{.lo = range.lo, .hi = std::max(range.lo, all.hi), .nan = all.nan, .pinf = all.pinf};
    add_once(x, RowBound{.axes = axes, .of = Of::largest, .in = in});
  }
  if (!all.nan && !range.pinf && (all.pinf || range.hi < all.hi)) {
    const Range in{.lo = std::min(range.hi, all.lo), .hi = range.hi, .ninf = all.ninf};
    add_once(x, RowBound{.axes = axes, .of = Of::smallest, .in = in});
  }
}

Relations relations_of_slices(const AbsTensor& x, std::size_t axis) { return relations_of_slices(x, axis, 1); }

Relations relations_of_slices(const AbsTensor& x, std::size_t axis, std::size_t count) {
  if (x.rank() + count > 32) return {};
  Movement movement{.to = unmoved(x), .taken = bit_of(axis)};
  for (std::size_t i = axis + 1; i < movement.to.size(); ++i) movement.to[i] += static_cast<int>(count) - 1;
  return moved(x.relations, movement);
}

Relations relations_of_part(const AbsTensor& x, std::size_t axis) {
  if (x.rank() > 32) return {};
  return moved(x.relations, {.to = unmoved(x), .part = bit_of(axis)});
}

namespace {

bool has_elements_along(const AbsTensor& x, std::size_t axis) { return x.size_limits(axis).least >= 1; }

// Of a bound of the first part on rows that lie in one part each, what the others say as well.
std::optional<Relation> in_all_parts(const RowBound& rows, std::span<const AbsTensor* const> parts) {
  std::optional<Relation> result = rows;
  for (const AbsTensor* part : parts.subspan(1)) {
    std::optional<Relation> both;
    for (const Relation& other : part->relations) {
      if (!both) both = joined(*result, other);
    }
    if (!both) return std::nullopt;
    result = both;
  }
  return result;
}

}  // namespace

void add_joined_rows(std::span<const AbsTensor* const> parts, std::size_t axis, AbsTensor& result) {
  const auto fits = [&](const AbsTensor* part) { return part->ranked && part->rank() == result.rank(); };
  if (parts.empty() || !result.ranked || result.rank() > 32 || !std::ranges::all_of(parts, fits)) return;
  for (const RowBound& rows : each<RowBound>(parts.front()->relations)) {
    if (is_along(rows, axis)) continue;
    if (const auto common = in_all_parts(rows, parts)) add_once(result, *common);
  }
  for (const AbsTensor* part : parts) {
    if (!has_elements_along(*part, axis) || part->hull().nan) continue;
    for (const RowBound& rows : each<RowBound>(part->relations)) {
      if (names_an_element(rows) && is_along(rows, axis)) add_row_element(result, rows.axes, rows.in);
    }
  }
}

}  // namespace finity
