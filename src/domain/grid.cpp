#include "domain/grid.h"

#include <algorithm>
#include <iterator>

#include "domain/symbol_moves.h"

namespace finity {

namespace {

// A block of the new grid as part of a block of the old one.
struct Part {
  std::size_t block = 0;
  std::int64_t start = 0;  // within the old block
  std::int64_t length = 0;
  bool whole = true;
};

std::vector<Part> parts_of_axis(const AbsTensor& x, std::size_t axis, const Cuts& cuts) {
  std::vector<Part> parts;
  std::size_t block = 0;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    const std::int64_t start = i == 0 ? 0 : cuts[i - 1];
    const std::int64_t end = i < cuts.size() ? cuts[i] : x.sizes[axis];
    while (block + 1 < x.blocks(axis) && x.block_start(axis, block + 1) <= start) ++block;
    const std::int64_t length = end - start;
    const bool whole = cuts.empty() || length == x.block_length(axis, block);
    parts.push_back({block, start - x.block_start(axis, block), length, whole});
  }
  return parts;
}

Cuts valid_cuts(const Cuts& cuts, std::int64_t size) {
  Cuts result;
  for (const std::int64_t cut : cuts) {
    if (cut > 0 && cut < size) result.push_back(cut);
  }
  return result;
}

Form sliced_form(Form form, const std::vector<const Part*>& parts, Symbols& symbols) {
  for (std::size_t axis = 0; axis < parts.size() && form.valid && !form.terms.empty(); ++axis) {
    const Part& part = *parts[axis];
    if (!part.whole) form = moved(form, symbols, slice_step(parts.size() - axis, part.start, part.length));
  }
  return form;
}

}  // namespace

std::vector<std::size_t> block_counts(const AbsTensor& x) {
  std::vector<std::size_t> counts(x.rank());
  for (std::size_t axis = 0; axis < x.rank(); ++axis) counts[axis] = x.blocks(axis);
  return counts;
}

std::size_t cell_count(const std::vector<Cuts>& cuts) {
  constexpr std::size_t kMany = std::size_t{1} << 40;
  std::size_t count = 1;
  for (const Cuts& inner : cuts) count = std::min(kMany, count * (inner.size() + 1));
  return count;
}

Cuts united(const Cuts& a, const Cuts& b) {
  Cuts result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

AbsTensor empty_grid(DType dtype, Dims sizes, std::vector<Cuts> cuts) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = true;
  result.sizes = std::move(sizes);
  const std::size_t count = cell_count(cuts);
  if (count > 1) result.cuts = std::move(cuts);
  result.cells.assign(count, Range{});
  return result;
}

void set_forms(AbsTensor& x, std::vector<Form> forms) {
  const bool any = std::any_of(forms.begin(), forms.end(), [](const Form& form) { return form.valid; });
  x.forms = any ? std::move(forms) : std::vector<Form>{};
  x.first_symbol = -1;
}

AbsTensor detached(const AbsTensor& x) {
  AbsTensor result = empty_grid(x.dtype, x.sizes, x.cuts);
  result.ranked = x.ranked;
  result.cells = x.cells;
  std::vector<Form> forms(x.cells.size());
  for (std::size_t i = 0; i < forms.size(); ++i) forms[i] = cell_form(x, i);
  set_forms(result, std::move(forms));
  return result;
}

AbsTensor refined(const AbsTensor& x, const std::vector<Cuts>& cuts, Symbols* symbols) {
  if (!x.ranked || cuts.empty()) return x;
  std::vector<Cuts> all(x.rank());
  bool more = false;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const Cuts own = x.cuts.empty() ? Cuts{} : x.cuts[axis];
    all[axis] = united(own, valid_cuts(cuts[axis], x.sizes[axis]));
    more = more || all[axis].size() > own.size();
  }
  if (!more) return x;
  std::vector<std::vector<Part>> parts(x.rank());
  for (std::size_t axis = 0; axis < x.rank(); ++axis) parts[axis] = parts_of_axis(x, axis, all[axis]);

  AbsTensor result = empty_grid(x.dtype, x.sizes, std::move(all));
  result.relations = x.relations;
  result.exact = x.exact;
  result.rows = x.rows;
  result.identity = x.identity;
  std::vector<Form> forms(symbols != nullptr ? result.cells.size() : 0);
  std::vector<const Part*> here(x.rank());
  std::size_t cell = 0;
  for_each_place(block_counts(result), [&](const std::vector<std::size_t>& place) {
    std::size_t old = 0;
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      here[axis] = &parts[axis][place[axis]];
      old = old * x.blocks(axis) + here[axis]->block;
    }
    result.cells[cell] = x.cells[old];
    if (symbols != nullptr) forms[cell] = sliced_form(cell_form(x, old), here, *symbols);
    ++cell;
  });
  set_forms(result, std::move(forms));
  return result;
}

namespace {

// For each old block, the block of the coarser grid it falls into.
std::vector<std::size_t> targets_of_axis(const AbsTensor& x, std::size_t axis, const std::vector<Cuts>& cuts) {
  std::vector<std::size_t> targets(x.blocks(axis), 0);
  if (cuts.empty()) return targets;
  std::size_t target = 0;
  for (std::size_t block = 0; block < targets.size(); ++block) {
    while (target < cuts[axis].size() && cuts[axis][target] <= x.block_start(axis, block)) ++target;
    targets[block] = target;
  }
  return targets;
}

// Forms speak of the block's own coordinates: of joined cells only equal constants survive.
Form merged_form(const Form& a, const Form& b) {
  const bool same = a.valid && b.valid && a.terms.empty() && b.terms.empty() && a.constant == b.constant;
  if (!same) return {};
  Form result = a;
  result.error = std::max(a.error, b.error);
  return result;
}

}  // namespace

AbsTensor coarsened(const AbsTensor& x, std::vector<Cuts> cuts) {
  if (!x.cut() || cell_count(cuts) == x.cells.size()) return x;
  std::vector<std::vector<std::size_t>> targets(x.rank());
  for (std::size_t axis = 0; axis < x.rank(); ++axis) targets[axis] = targets_of_axis(x, axis, cuts);

  AbsTensor result = empty_grid(x.dtype, x.sizes, std::move(cuts));
  result.relations = x.relations;
  result.exact = x.exact;
  result.rows = x.rows;
  result.identity = x.identity;
  std::vector<Form> forms(result.cells.size());
  std::vector<bool> filled(result.cells.size(), false);
  std::size_t old = 0;
  for_each_place(block_counts(x), [&](const std::vector<std::size_t>& place) {
    std::size_t cell = 0;
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      cell = cell * result.blocks(axis) + targets[axis][place[axis]];
    }
    const Form form = cell_form(x, old);
    forms[cell] = filled[cell] ? merged_form(forms[cell], form) : form;
    result.cells[cell] = filled[cell] ? join(result.cells[cell], x.cells[old]) : x.cells[old];
    filled[cell] = true;
    ++old;
  });
  set_forms(result, std::move(forms));
  return result;
}

AbsTensor uncut(const AbsTensor& x, std::size_t axis) {
  if (x.blocks(axis) == 1) return x;
  std::vector<Cuts> cuts = x.cuts;
  cuts[axis].clear();
  return coarsened(x, std::move(cuts));
}

AbsTensor smashed(const AbsTensor& x) { return x.cut() ? coarsened(x, {}) : x; }

AbsTensor unranked(const AbsTensor& x) {
  if (!x.ranked) return x;
  AbsTensor result = smashed(x);
  constexpr std::uint32_t kAll = ~std::uint32_t{0};
  result.limits = {{.least = x.least_count(kAll), .most = x.most_count(kAll)}};
  result.ranked = false;
  result.sizes = {};
  result.cuts = {};
  result.relations = {};
  result.rows.reset();
  return result;
}

}  // namespace finity
