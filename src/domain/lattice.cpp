// Join, widening and order of abstract tensors.
#include <algorithm>

#include "domain/grid.h"
#include "tensor/tensor.h"

namespace finity {

namespace {

bool same_form(const Form& a, const Form& b) {
  return a.valid == b.valid && (!a.valid || (a.terms == b.terms && a.constant == b.constant && a.error == b.error));
}

// Both with the rank and the sizes that hold for both; an axis of unequal sizes is not cut.
void agree_on_sizes(AbsTensor& a, AbsTensor& b) {
  if (!a.ranked || !b.ranked || a.rank() != b.rank()) {
    a = unranked(a);
    b = unranked(b);
    return;
  }
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    if (a.sizes[axis] == b.sizes[axis]) continue;
    a = uncut(a, axis);
    b = uncut(b, axis);
    a.sizes[axis] = b.sizes[axis] = -1;
  }
}

std::vector<Cuts> all_cuts(const AbsTensor& a, const AbsTensor& b) {
  std::vector<Cuts> cuts(a.rank());
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    cuts[axis] = united(a.cuts.empty() ? Cuts{} : a.cuts[axis], b.cuts.empty() ? Cuts{} : b.cuts[axis]);
  }
  return cuts;
}

// Explicit forms that are equal in both; own symbols are different values.
std::vector<Form> common_forms(const AbsTensor& a, const AbsTensor& b) {
  std::vector<Form> forms(a.cells.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const Form form = cell_form(a, i);
    if (same_form(form, cell_form(b, i))) forms[i] = form;
  }
  return forms;
}

AbsTensor on_grid(const AbsTensor& x, const std::vector<Cuts>& cuts) {
  return coarsened(refined(x, cuts, nullptr), cuts);
}

bool sizes_within(const AbsTensor& a, const AbsTensor& b) {
  if (!b.ranked) return true;
  if (!a.ranked || a.rank() != b.rank()) return false;
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    if (b.sizes[axis] >= 0 && b.sizes[axis] != a.sizes[axis]) return false;
  }
  return true;
}

// An explicit form of b says something of other values: a must say the same.
bool forms_within(const AbsTensor& a, const AbsTensor& b) {
  if (b.forms.empty()) return true;
  for (std::size_t i = 0; i < b.cells.size(); ++i) {
    if (b.forms[i].valid && !same_form(cell_form(a, i), b.forms[i])) return false;
  }
  return true;
}

std::vector<SizeLimits> joined_limits(const AbsTensor& a, const AbsTensor& b) {
  std::vector<SizeLimits> result;
  if (a.limits.size() != b.limits.size() || a.ranked != b.ranked) return result;
  for (std::size_t i = 0; i < a.limits.size(); ++i) {
    result.push_back({.least = std::min(a.limits[i].least, b.limits[i].least),
                      .most = std::max(a.limits[i].most, b.limits[i].most)});
  }
  return result;
}

}  // namespace

AbsTensor join(const AbsTensor& a, const AbsTensor& b, std::size_t max_cells) {
  AbsTensor left = a;
  AbsTensor right = b;
  agree_on_sizes(left, right);
  if (left.ranked) {
    if (cell_count(all_cuts(left, right)) > 16 * std::max<std::size_t>(max_cells, 1)) {
      simplify(left, 8);
      simplify(right, 8);
    }
    const std::vector<Cuts> cuts = all_cuts(left, right);
    left = refined(left, cuts, nullptr);
    right = refined(right, cuts, nullptr);
  }
  AbsTensor result = empty_grid(a.dtype, left.sizes, left.cuts);
  result.ranked = left.ranked;
  result.limits = joined_limits(left, right);
  for (std::size_t i = 0; i < result.cells.size(); ++i) result.cells[i] = join(left.cells[i], right.cells[i]);
  set_forms(result, common_forms(left, right));
  result.relations = joined(left.relations, right.relations);
  if (a.exact && b.exact && identical(*a.exact, *b.exact)) result.exact = a.exact;
  simplify(result, max_cells);
  return result;
}

AbsTensor widen(const AbsTensor& a, const AbsTensor& b) {
  AbsTensor left = a;
  AbsTensor right = b;
  agree_on_sizes(left, right);
  // Only a's grid, so that iterations cannot refine for ever.
  if (left.ranked) right = on_grid(right, left.cuts);
  AbsTensor result = empty_grid(a.dtype, left.sizes, left.cuts);
  result.ranked = left.ranked;
  result.limits = joined_limits(left, right);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    result.cells[i] = widen(left.cells[i], right.cells[i], a.dtype);
  }
  set_forms(result, common_forms(left, right));
  for (const Relation& relation : left.relations) {
    if (speaks_of_rows(relation) && implies(right.relations, relation)) result.relations.push_back(relation);
  }
  if (a.exact && b.exact && identical(*a.exact, *b.exact)) result.exact = a.exact;
  return result;
}

bool is_subset(const AbsTensor& a, const AbsTensor& b) {
  if (a.dtype != b.dtype || !sizes_within(a, b)) return false;
  if (b.exact && !(a.exact && (a.exact == b.exact || identical(*a.exact, *b.exact)))) return false;
  if (b.rows && a.rows != b.rows) return false;
  for (const Relation& relation : b.relations) {
    if (!implies(a.relations, relation)) return false;
  }
  const AbsTensor inner = b.ranked ? on_grid(a, b.cuts) : unranked(a);
  for (std::size_t i = 0; i < b.cells.size(); ++i) {
    if (!is_subset(inner.cells[i], b.cells[i])) return false;
  }
  return forms_within(inner, b);
}

AbsTensor meet(const AbsTensor& a, const AbsTensor& b, std::size_t max_cells, Symbols* symbols) {
  const Range all = b.hull();
  AbsTensor result = a;
  for (Range& cell : result.cells) cell = meet(cell, all);
  if (!b.cut() || !a.ranked || !b.ranked || a.rank() != b.rank()) return result;
  AbsTensor other = b;
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    if (a.sizes[axis] != b.sizes[axis]) other = uncut(other, axis);
    other.sizes[axis] = a.sizes[axis];
  }
  const std::vector<Cuts> cuts = all_cuts(result, other);
  if (cell_count(cuts) > 4 * std::max<std::size_t>(max_cells, 1)) return result;
  result = refined(result, cuts, symbols);
  other = refined(other, cuts, nullptr);
  for (std::size_t i = 0; i < result.cells.size(); ++i) result.cells[i] = meet(result.cells[i], other.cells[i]);
  simplify(result, max_cells);
  return result;
}

}  // namespace finity
