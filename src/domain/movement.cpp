#include "domain/movement.h"

#include <algorithm>

#include "domain/grid.h"
#include "domain/row_bounds.h"
#include "domain/symbol_moves.h"

namespace finity {

namespace {

// A result whose cells come one by one from x: `source(place)` is the cell of x for a place of the result.
template <class Source>
AbsTensor picked(const AbsTensor& x, Dims sizes, std::vector<Cuts> cuts, const std::string& step, Symbols& symbols,
                 Source source) {
  AbsTensor result = empty_grid(x.dtype, std::move(sizes), std::move(cuts));
  std::vector<Form> forms(result.cells.size());
  std::size_t cell = 0;
  for_each_place(block_counts(result), [&](const std::vector<std::size_t>& place) {
    const std::size_t from = source(place);
    result.cells[cell] = x.cells[from];
    forms[cell] = moved(cell_form(x, from), symbols, step);
    ++cell;
  });
  set_forms(result, std::move(forms));
  return result;
}

AbsTensor lost_shape(const AbsTensor& x) {
  AbsTensor result;
  result.dtype = x.dtype;
  result.cells = {x.hull()};
  return result;
}

bool leading(std::span<const std::size_t> axes) {
  return std::ranges::all_of(axes, [&](std::size_t axis) { return axis < axes.size(); });
}

std::uint32_t bits_of(std::span<const std::size_t> axes) {
  std::uint32_t bits = 0;
  for (const std::size_t axis : axes) bits |= axis < 32 ? std::uint32_t{1} << axis : 0;
  return bits;
}

// Where each axis of the shorter shape lies in the longer one that has `axes` besides.
std::vector<std::size_t> other_axes(std::size_t rank, std::span<const std::size_t> axes) {
  std::vector<std::size_t> result;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) result.push_back(axis);
  }
  return result;
}

std::vector<int> ints_of(std::span<const std::size_t> axes) { return {axes.begin(), axes.end()}; }

// Where each axis goes that `axes` do not name, the others being gone.
std::vector<int> squeezed_to(std::size_t rank, std::span<const std::size_t> kept) {
  std::vector<int> to(rank, -1);
  for (std::size_t i = 0; i < kept.size(); ++i) to[kept[i]] = static_cast<int>(i);
  return to;
}

std::vector<Form> moved_forms(const AbsTensor& x, const std::string& step, Symbols& symbols) {
  std::vector<Form> forms(x.cells.size());
  for (std::size_t i = 0; i < forms.size(); ++i) forms[i] = moved(cell_form(x, i), symbols, step);
  return forms;
}

}  // namespace

AbsTensor transposed(const AbsTensor& x, std::span<const std::size_t> perm, Symbols& symbols) {
  if (!x.ranked || perm.size() != x.rank()) return lost_shape(x);
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  Dims sizes(x.rank());
  std::vector<Cuts> cuts(x.rank());
  std::vector<std::int64_t> target(x.rank());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    sizes[i] = x.sizes[perm[i]];
    if (!x.cuts.empty()) cuts[i] = x.cuts[perm[i]];
    // Where the axis goes is nobody's business when it has size 1.
    target[perm[i]] = sizes[i] == 1 ? -1 : static_cast<std::int64_t>(i);
  }
  std::vector<std::size_t> from(x.rank());
  AbsTensor result = picked(x, std::move(sizes), std::move(cuts), axes_step(target, x.rank()), symbols,
                            [&](const std::vector<std::size_t>& place) {
                              for (std::size_t i = 0; i < perm.size(); ++i) from[perm[i]] = place[i];
                              return cell_at(x, from);
                            });
  Movement turn{.to = std::vector<int>(perm.size())};
  for (std::size_t i = 0; i < perm.size(); ++i) turn.to[perm[i]] = static_cast<int>(i);
  result.relations = moved(x.relations, turn);
  return result;
}

AbsTensor sliced(const AbsTensor& x, std::size_t axis, std::int64_t start, std::int64_t length, Symbols& symbols) {
  if (!x.ranked || axis >= x.rank()) return lost_shape(x);
  if (start == 0 && length == x.sizes[axis]) return x;
  if (length <= 0) {
    Dims sizes = x.sizes;
    sizes[axis] = 0;
    return uniform(x.dtype, std::move(sizes), Range{});
  }
  const std::size_t from_end = x.rank() - axis;
  if (x.sizes[axis] < 0) {
    AbsTensor result = detached(x);
    result.sizes[axis] = length;
    set_forms(result, moved_forms(x, slice_step(from_end, start, length), symbols));
    result.relations = relations_of_part(x, axis);
    return result;
  }
  // Cutting at both ends first makes the slice a choice of whole blocks.
  std::vector<Cuts> ends(x.rank());
  if (start > 0) ends[axis].push_back(start);
  if (start + length < x.sizes[axis]) ends[axis].push_back(start + length);
  const AbsTensor fine = refined(x, ends, &symbols);
  Dims sizes = x.sizes;
  sizes[axis] = length;
  std::vector<Cuts> cuts = fine.cuts;
  cuts.resize(x.rank());
  Cuts inner;
  std::size_t first = 0;
  for (const std::int64_t cut : cuts[axis]) {
    if (cut <= start) ++first;
    if (cut > start && cut < start + length) inner.push_back(cut - start);
  }
  cuts[axis] = std::move(inner);
  AbsTensor result =
      picked(fine, std::move(sizes), std::move(cuts), "", symbols, [&](const std::vector<std::size_t>& place) {
        std::vector<std::size_t> from = place;
        from[axis] += first;
        return cell_at(fine, from);
      });
  result.relations = relations_of_part(x, axis);
  return result;
}

AbsTensor selected(const AbsTensor& x, std::size_t axis, std::int64_t size, const std::string& movement,
                   Symbols& symbols) {
  if (!x.ranked || axis >= x.rank()) return lost_shape(x);
  AbsTensor result = detached(uncut(x, axis));
  result.sizes[axis] = size;
  const bool described = !movement.empty() && x.blocks(axis) == 1;
  for (Form& form : result.forms) {
    form = described || form.terms.empty() ? moved(form, symbols, movement) : Form{};
  }
  set_forms(result, std::move(result.forms));
  return result;
}

AbsTensor unsqueezed(const AbsTensor& x, std::span<const std::size_t> axes, Symbols& symbols) {
  if (!x.ranked) return lost_shape(x);
  if (axes.empty()) return x;
  const std::size_t rank = x.rank() + axes.size();
  const std::vector<std::size_t> kept = other_axes(rank, axes);
  Dims sizes(rank, 1);
  std::vector<Cuts> cuts(rank);
  std::vector<std::int64_t> target(x.rank());
  for (std::size_t i = 0; i < x.rank() && i < kept.size(); ++i) {
    sizes[kept[i]] = x.sizes[i];
    if (!x.cuts.empty()) cuts[kept[i]] = x.cuts[i];
    target[i] = x.sizes[i] == 1 ? -1 : static_cast<std::int64_t>(kept[i]);
  }
  AbsTensor result = empty_grid(x.dtype, std::move(sizes), std::move(cuts));
  result.cells = x.cells;
  set_forms(result, moved_forms(x, axes_step(target, rank), symbols));
  result.relations = moved(x.relations, {.to = ints_of(kept), .in_place = leading(axes), .inserted = bits_of(axes)});
  return result;
}

AbsTensor squeezed(const AbsTensor& x, std::span<const std::size_t> axes, Symbols& symbols) {
  if (!x.ranked) return lost_shape(x);
  if (axes.empty()) return x;
  const std::vector<std::size_t> kept = other_axes(x.rank(), axes);
  Dims sizes(kept.size());
  std::vector<Cuts> cuts(kept.size());
  std::vector<std::int64_t> target(x.rank(), -1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    sizes[i] = x.sizes[kept[i]];
    if (!x.cuts.empty()) cuts[i] = x.cuts[kept[i]];
    target[kept[i]] = sizes[i] == 1 ? -1 : static_cast<std::int64_t>(i);
  }
  AbsTensor result = empty_grid(x.dtype, std::move(sizes), std::move(cuts));
  // An axis declared longer than 1 cannot be squeezed; the model is wrong, the cells are not.
  if (result.cells.size() != x.cells.size()) return lost_shape(x);
  result.cells = x.cells;
  set_forms(result, moved_forms(x, axes_step(target, kept.size()), symbols));
  result.relations =
      moved(x.relations, {.to = squeezed_to(x.rank(), kept), .in_place = leading(axes), .removed = bits_of(axes)});
  return result;
}

namespace {

// Axes of x along which its elements may be repeated.
AxisBits repeated_axes(const AbsTensor& x, const Dims& sizes) {
  const std::size_t more = sizes.size() - x.rank();
  AxisBits result = 0;
  for (std::size_t axis = 0; axis < x.rank() && axis < 32; ++axis) {
    const bool same = x.sizes[axis] > 1 || (x.sizes[axis] == 1 && sizes[more + axis] == 1);
    if (!same) result |= AxisBits{1} << axis;
  }
  return result;
}

}  // namespace

AbsTensor broadcasted(const AbsTensor& x, const Dims& sizes, Symbols& symbols) {
  if (!x.ranked || x.rank() > sizes.size()) return lost_shape(x);
  if (x.sizes == sizes && std::find(sizes.begin(), sizes.end(), -1) == sizes.end()) return x;
  const std::size_t more = sizes.size() - x.rank();
  Dims full = sizes;
  std::vector<Cuts> cuts(sizes.size());
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (x.sizes[i] > 1) full[more + i] = x.sizes[i];
    if (!x.cuts.empty()) cuts[more + i] = x.cuts[i];
  }
  AbsTensor result = empty_grid(x.dtype, std::move(full), std::move(cuts));
  result.cells = x.cells;
  set_forms(result, moved_forms(x, "", symbols));
  // Repeating does not change what is compared with what, as long as axes stay in place.
  Movement repeat{.to = std::vector<int>(x.rank()), .repeated = repeated_axes(x, sizes), .in_place = more == 0};
  for (std::size_t i = 0; i < x.rank(); ++i) repeat.to[i] = static_cast<int>(more + i);
  result.relations = moved(x.relations, repeat);
  return result;
}

AbsTensor shuffled(const AbsTensor& x, const Type& type) { return uniform(type, x.hull()); }

}  // namespace finity
