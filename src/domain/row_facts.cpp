#include "domain/row_facts.h"

#include <algorithm>

namespace finity {

namespace {

using Kind = Fact::Kind;

bool is_along(const Fact& fact, std::size_t axis) { return axis < 32 && (fact.axes >> axis & 1U) != 0; }

bool same_rows(const Fact& a, const Fact& b) { return a.kind == b.kind && a.axes == b.axes && a.total == b.total; }

// Long chains of masks would collect them without end.
constexpr std::ptrdiff_t kMostRowFacts = 8;

void add_once(AbsTensor& x, const Fact& fact) {
  const auto implied = [&](const Fact& old) { return same_rows(old, fact) && is_subset(old.range, fact.range); };
  if (std::ranges::any_of(x.facts, implied)) return;
  if (std::ranges::count_if(x.facts, speaks_of_rows) < kMostRowFacts) x.facts.push_back(fact);
}

}  // namespace

bool names_an_element(const Fact& fact) {
  return (fact.kind == Kind::row_max || fact.kind == Kind::row_min) && !fact.range.nan;
}

void add_row_element(AbsTensor& x, std::uint32_t axes, const Range& range) {
  const Range all = x.hull();
  if (!x.ranked || range.nan || !range.has_finite()) return;
  if (!range.ninf && (all.ninf || range.lo > all.lo)) {
    add_once(x, {.kind = Kind::row_max,
                 .axes = axes,
                 .range = {.lo = range.lo, .hi = std::max(range.lo, all.hi), .nan = all.nan, .pinf = all.pinf}});
  }
  if (!all.nan && !range.pinf && (all.pinf || range.hi < all.hi)) {
    add_once(x, {.kind = Kind::row_min,
                 .axes = axes,
                 .range = {.lo = std::min(range.hi, all.lo), .hi = range.hi, .ninf = all.ninf}});
  }
}

Facts rows_of_slices(const AbsTensor& x, std::size_t axis) { return rows_of_slices(x, axis, 1); }

Facts rows_of_slices(const AbsTensor& x, std::size_t axis, std::size_t count) {
  Facts result;
  if (x.rank() + count > 32) return result;
  for (Fact fact : x.facts) {
    if (!speaks_of_rows(fact) || is_along(fact, axis)) continue;
    const std::uint32_t before = fact.axes & ((std::uint32_t{1} << axis) - 1);
    const std::uint32_t behind = fact.axes >> axis >> 1;
    fact.axes = before | behind << (axis + count);
    result.push_back(fact);
  }
  return result;
}

Facts rows_of_part(const AbsTensor& x, std::size_t axis) {
  Facts result = rows_of_slices(x, axis);
  for (Fact fact : x.facts) {
    if (!is_along(fact, axis)) continue;
    // Of nonnegative elements, fewer have a smaller sum; a shorter row has a smaller norm.
    if (fact.kind == Kind::row_sum) fact.range = {.lo = std::min(0.0, fact.range.lo), .hi = fact.range.hi};
    if (fact.kind == Kind::row_sum || fact.kind == Kind::row_norm) result.push_back(fact);
  }
  return result;
}

namespace {

bool has_elements_along(const AbsTensor& x, std::size_t axis) { return x.size_limits(axis).least >= 1; }

// Of a fact of the first part about rows that lie in one part each, what the others say as well.
std::optional<Fact> in_all_parts(const Fact& fact, std::span<const AbsTensor* const> parts) {
  Fact result = fact;
  for (const AbsTensor* part : parts.subspan(1)) {
    const auto same = std::ranges::find_if(part->facts, [&](const Fact& other) { return same_rows(other, fact); });
    if (same == part->facts.end()) return std::nullopt;
    result.range = join(result.range, same->range);
  }
  return result;
}

}  // namespace

void add_joined_rows(std::span<const AbsTensor* const> parts, std::size_t axis, AbsTensor& result) {
  const auto fits = [&](const AbsTensor* part) { return part->ranked && part->rank() == result.rank(); };
  if (parts.empty() || !result.ranked || result.rank() > 32 || !std::ranges::all_of(parts, fits)) return;
  for (const Fact& fact : parts.front()->facts) {
    if (!speaks_of_rows(fact) || is_along(fact, axis)) continue;
    if (const auto common = in_all_parts(fact, parts)) add_once(result, *common);
  }
  for (const AbsTensor* part : parts) {
    if (!has_elements_along(*part, axis) || part->hull().nan) continue;
    for (const Fact& fact : part->facts) {
      if (names_an_element(fact) && is_along(fact, axis)) add_row_element(result, fact.axes, fact.range);
    }
  }
}

}  // namespace finity
