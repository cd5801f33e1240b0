// Fewer cells for the same tensor: equal neighbours first, then the closest ones.
#include <algorithm>
#include <cmath>

#include "domain/grid.h"

namespace finity {

namespace {

// How much is lost when two neighbouring cells become one. Zero and the flags matter most to hazards.
double distance(const Range& a, const Range& b) {
  if (a == b) return 0;
  if (a.is_empty() || b.is_empty()) return 1e-9;
  double cost = 0;
  if (a.has_finite() && b.has_finite()) {
    const double scale = std::max({std::abs(a.lo), std::abs(a.hi), std::abs(b.lo), std::abs(b.hi), 1e-300});
    cost += std::abs(a.lo / scale - b.lo / scale) + std::abs(a.hi / scale - b.hi / scale);
    if (a.may_be_zero() != b.may_be_zero()) cost += 1;
    if ((a.lo >= 0) != (b.lo >= 0)) cost += 1;
  } else {
    cost += 1;
  }
  return cost + (a.nan != b.nan ? 2 : 0) + (a.pinf != b.pinf ? 2 : 0) + (a.ninf != b.ninf ? 2 : 0);
}

bool informative(const Form& form) { return form.valid && !form.terms.empty(); }

struct Seam {
  std::size_t axis = 0;
  std::size_t cut = 0;  // index into the axis' cuts
  double cost = 0;      // worst pair of cells across it
  bool forms = false;   // merging loses a form
};

// All seams between neighbouring slabs, with what merging across them costs.
std::vector<Seam> seams_of(const AbsTensor& x) {
  std::vector<std::size_t> first(x.rank() + 1, 0);
  std::vector<Seam> seams;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    first[axis] = seams.size();
    for (std::size_t cut = 0; cut + 1 < x.blocks(axis); ++cut) seams.push_back({.axis = axis, .cut = cut});
  }
  std::vector<std::size_t> stride(x.rank(), 1);
  for (std::size_t axis = x.rank(); axis-- > 1;) stride[axis - 1] = stride[axis] * x.blocks(axis);
  std::size_t cell = 0;
  for_each_place(block_counts(x), [&](const std::vector<std::size_t>& place) {
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (place[axis] + 1 >= x.blocks(axis)) continue;
      Seam& seam = seams[first[axis] + place[axis]];
      const std::size_t next = cell + stride[axis];
      seam.cost = std::max(seam.cost, distance(x.cells[cell], x.cells[next]));
      if (!x.forms.empty()) seam.forms = seam.forms || informative(x.forms[cell]) || informative(x.forms[next]);
    }
    ++cell;
  });
  return seams;
}

AbsTensor without_seams(const AbsTensor& x, std::vector<Seam> seams) {
  std::vector<Cuts> cuts = x.cuts;
  std::ranges::sort(seams, [](const Seam& a, const Seam& b) { return a.cut > b.cut; });
  for (const Seam& seam : seams) cuts[seam.axis].erase(cuts[seam.axis].begin() + static_cast<std::ptrdiff_t>(seam.cut));
  return coarsened(x, std::move(cuts));
}

// Merges slabs that are equal cell by cell; a form that would be lost keeps them apart.
void merge_equal(AbsTensor& x, bool keep_forms) {
  std::vector<Seam> equal;
  for (const Seam& seam : seams_of(x)) {
    if (seam.cost == 0 && !(keep_forms && seam.forms)) equal.push_back(seam);
  }
  if (!equal.empty()) x = without_seams(x, std::move(equal));
}

// The cheapest half of what is too much; each seam counted with the cells it saves.
void merge_closest(AbsTensor& x, std::size_t max_cells) {
  std::vector<Seam> seams = seams_of(x);
  std::ranges::stable_sort(seams, {}, &Seam::cost);
  std::vector<std::size_t> blocks = block_counts(x);
  double cells = static_cast<double>(x.cells.size());
  const double aim = std::max(static_cast<double>(max_cells), cells / 2);
  std::size_t taken = 0;
  while (taken < seams.size() && cells > aim) {
    std::size_t& count = blocks[seams[taken].axis];
    cells = cells / static_cast<double>(count) * static_cast<double>(count - 1);
    --count;
    ++taken;
  }
  seams.resize(std::max<std::size_t>(taken, 1));
  x = without_seams(x, std::move(seams));
}

}  // namespace

void simplify(AbsTensor& x, std::size_t max_cells) {
  if (!x.cut()) return;
  if (max_cells <= 1) {
    x = smashed(x);
    return;
  }
  merge_equal(x, true);
  if (x.cells.size() <= max_cells) return;
  merge_equal(x, false);
  while (x.cells.size() > max_cells) merge_closest(x, max_cells);
}

}  // namespace finity
