// Concatenation: the parts' blocks one after the other.
#include <algorithm>

#include "domain/grid.h"
#include "domain/movement.h"
#include "domain/row_bounds.h"

namespace finity {

namespace {

AbsTensor joined(std::span<const AbsTensor* const> parts, DType dtype, const Dims& sizes) {
  Range range;
  for (const AbsTensor* part : parts) range = join(range, part->hull());
  return uniform(dtype, sizes, range);
}

bool known_along(const AbsTensor& part, std::size_t axis, std::size_t rank) {
  return part.ranked && part.rank() == rank && part.sizes[axis] >= 0;
}

// The sizes every part agrees on besides `axis`.
Dims common_sizes(std::span<const AbsTensor* const> parts, std::size_t axis, const Dims& sizes) {
  Dims result = sizes;
  for (const AbsTensor* part : parts) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (i != axis && result[i] < 0) result[i] = part->sizes[i];
    }
  }
  return result;
}

// Cuts of all parts along the other axes; none where sizes are not known to be equal.
std::vector<Cuts> shared_cuts(std::span<const AbsTensor* const> parts, std::size_t axis, const Dims& sizes) {
  std::vector<Cuts> cuts(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool equal =
        std::all_of(parts.begin(), parts.end(), [&](const AbsTensor* part) { return part->sizes[i] == sizes[i]; });
    if (i == axis || !equal) continue;
    for (const AbsTensor* part : parts) {
      if (!part->cuts.empty()) cuts[i] = united(cuts[i], part->cuts[i]);
    }
  }
  return cuts;
}

AbsTensor on_shared_grid(const AbsTensor& part, std::size_t axis, std::vector<Cuts> cuts, Symbols* symbols) {
  cuts[axis] = part.cuts.empty() ? Cuts{} : part.cuts[axis];
  return coarsened(refined(part, cuts, symbols), cuts);
}

// Blocks along the axis of part after part.
Cuts cuts_along(const std::vector<AbsTensor>& parts, std::size_t axis) {
  Cuts cuts;
  std::int64_t offset = 0;
  for (const AbsTensor& part : parts) {
    if (offset > 0) cuts.push_back(offset);
    for (std::size_t block = 1; block < part.blocks(axis); ++block) {
      cuts.push_back(offset + part.block_start(axis, block));
    }
    offset += part.sizes[axis];
  }
  return cuts;
}

AbsTensor stacked(const std::vector<AbsTensor>& parts, std::size_t axis, const Dims& sizes, std::vector<Cuts> cuts) {
  std::vector<std::pair<std::size_t, std::size_t>> origin;  // part and its block, per block along the axis
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t block = 0; block < parts[part].blocks(axis); ++block) origin.emplace_back(part, block);
  }
  cuts[axis] = cuts_along(parts, axis);
  AbsTensor result = empty_grid(parts.front().dtype, sizes, std::move(cuts));
  std::vector<Form> forms(result.cells.size());
  std::size_t cell = 0;
  for_each_place(block_counts(result), [&](const std::vector<std::size_t>& place) {
    const auto [part, block] = origin[place[axis]];
    std::vector<std::size_t> from = place;
    from[axis] = block;
    const std::size_t source = cell_at(parts[part], from);
    result.cells[cell] = parts[part].cells[source];
    forms[cell] = cell_form(parts[part], source);
    ++cell;
  });
  set_forms(result, std::move(forms));
  return result;
}

AbsTensor joined_cells(std::span<const AbsTensor* const> parts, std::size_t axis, const Dims& sizes,
                       std::size_t max_cells, Symbols* symbols) {
  const DType dtype = parts.empty() ? DType::undefined : parts.front()->dtype;
  const bool known = !parts.empty() && axis < sizes.size() &&
                     std::all_of(parts.begin(), parts.end(),
                                 [&](const AbsTensor* part) { return known_along(*part, axis, sizes.size()); });
  if (!known) return joined(parts, dtype, sizes);
  std::vector<const AbsTensor*> filled;  // parts without elements give nothing
  for (const AbsTensor* part : parts) {
    if (part->sizes[axis] > 0) filled.push_back(part);
  }
  if (filled.empty()) return joined(parts, dtype, sizes);
  Dims full = common_sizes(filled, axis, sizes);
  full[axis] = 0;
  for (const AbsTensor* part : filled) full[axis] += part->sizes[axis];
  std::vector<Cuts> cuts = shared_cuts(filled, axis, full);
  if (cell_count(cuts) > 16 * max_cells || filled.size() > 64 * max_cells) return joined(parts, dtype, full);
  std::vector<AbsTensor> aligned;
  std::size_t blocks = 0;
  for (const AbsTensor* part : filled) {
    aligned.push_back(on_shared_grid(*part, axis, cuts, symbols));
    blocks += aligned.back().blocks(axis);
  }
  if (blocks * cell_count(cuts) > 64 * std::max<std::size_t>(max_cells, 16)) return joined(parts, dtype, full);
  AbsTensor result = stacked(aligned, axis, full, std::move(cuts));
  simplify(result, max_cells);
  return result;
}

}  // namespace

AbsTensor concatenated(std::span<const AbsTensor* const> parts, std::size_t axis, const Dims& sizes,
                       std::size_t max_cells, Symbols* symbols) {
  AbsTensor result = joined_cells(parts, axis, sizes, max_cells, symbols);
  std::vector<const AbsTensor*> filled;
  for (const AbsTensor* part : parts) {
    if (!part->ranked || axis >= part->rank() || part->sizes[axis] != 0) filled.push_back(part);
  }
  add_joined_rows(filled, axis, result);
  return result;
}

}  // namespace finity
