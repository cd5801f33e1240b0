// Selections along one axis by index.
#include <algorithm>

#include "domain/grid.h"
#include "domain/movement.h"
#include "domain/symbol_moves.h"

namespace finity {

namespace {

// Neighbouring positions of the result that come from one block of the source.
struct Stretch {
  std::size_t block = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<Stretch> stretches_of(const AbsTensor& x, std::size_t axis, std::span<const std::int64_t> indices) {
  std::vector<Stretch> result;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Cuts& cuts = x.cuts[axis];
    const auto block = static_cast<std::size_t>(std::ranges::upper_bound(cuts, indices[i]) - cuts.begin());
    if (result.empty() || result.back().block != block) result.push_back({block, i, i});
    result.back().end = i + 1;
  }
  return result;
}

bool rises_by_one(std::span<const std::int64_t> indices) {
  for (std::size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] != indices[i - 1] + 1) return false;
  }
  return true;
}

constexpr std::size_t kLongestList = 64;

std::string list_text(std::span<const std::int64_t> indices, std::int64_t start) {
  std::string text;
  for (const std::int64_t index : indices) text += (text.empty() ? "" : ",") + std::to_string(index - start);
  return text;
}

// The step from a block to a stretch of it: "" for all of it in order; nothing when it is too long to say.
std::optional<std::string> step_of(const AbsTensor& x, std::size_t axis, const Stretch& stretch,
                                   std::span<const std::int64_t> indices) {
  const std::size_t from_end = x.rank() - axis;
  const std::span<const std::int64_t> own = indices.subspan(stretch.begin, stretch.end - stretch.begin);
  const std::int64_t start = x.block_start(axis, stretch.block);
  const auto length = static_cast<std::int64_t>(own.size());
  if (rises_by_one(own)) {
    const bool whole = own[0] == start && length == x.block_length(axis, stretch.block);
    return whole ? "" : slice_step(from_end, own[0] - start, length);
  }
  if (own.size() > kLongestList) return std::nullopt;
  return select_step(from_end, list_text(own, start));
}

// All blocks that are read, joined.
AbsTensor joined_blocks(const AbsTensor& x, std::size_t axis, const std::vector<Stretch>& stretches,
                        std::int64_t size) {
  std::vector<bool> read(x.blocks(axis), false);
  for (const Stretch& stretch : stretches) read[stretch.block] = true;
  AbsTensor chosen = x;
  std::size_t cell = 0;
  for_each_place(block_counts(x), [&](const std::vector<std::size_t>& place) {
    if (!read[place[axis]]) chosen.cells[cell] = {};
    ++cell;
  });
  AbsTensor result = detached(uncut(chosen, axis));
  result.sizes[axis] = size;
  result.forms.clear();
  return result;
}

}  // namespace

AbsTensor gathered(const AbsTensor& x, std::size_t axis, std::span<const std::int64_t> indices, const std::string& text,
                   std::size_t max_cells, Symbols& symbols) {
  const auto size = static_cast<std::int64_t>(indices.size());
  if (indices.empty()) return sliced(x, axis, 0, 0, symbols);
  if (rises_by_one(indices)) return sliced(x, axis, indices[0], size, symbols);
  if (x.blocks(axis) == 1) {
    const std::string list = indices.size() <= kLongestList ? list_text(indices, 0) : text;
    return selected(x, axis, size, list.empty() ? "" : select_step(x.rank() - axis, list), symbols);
  }
  const std::vector<Stretch> stretches = stretches_of(x, axis, indices);
  const std::size_t others = x.cells.size() / x.blocks(axis);
  if (stretches.size() * others > 4 * std::max<std::size_t>(max_cells, 16)) {
    return joined_blocks(x, axis, stretches, size);
  }
  std::vector<Cuts> cuts = x.cuts;
  cuts[axis].clear();
  for (std::size_t i = 1; i < stretches.size(); ++i) {
    cuts[axis].push_back(static_cast<std::int64_t>(stretches[i].begin));
  }
  Dims sizes = x.sizes;
  sizes[axis] = size;
  AbsTensor result = empty_grid(x.dtype, std::move(sizes), std::move(cuts));
  std::vector<Form> forms(result.cells.size());
  std::size_t cell = 0;
  for_each_place(block_counts(result), [&](const std::vector<std::size_t>& place) {
    const Stretch& stretch = stretches[place[axis]];
    std::vector<std::size_t> from = place;
    from[axis] = stretch.block;
    const std::size_t source = cell_at(x, from);
    result.cells[cell] = x.cells[source];
    const Form form = cell_form(x, source);
    const auto step = step_of(x, axis, stretch, indices);
    if (step || form.terms.empty()) forms[cell] = moved(form, symbols, step.value_or(""));
    ++cell;
  });
  set_forms(result, std::move(forms));
  simplify(result, max_cells);
  return result;
}

AbsTensor looked_up(const AbsTensor& x, std::size_t axis, const Dims& sizes, const std::string& movement,
                    Symbols& symbols) {
  AbsTensor result = selected(x, axis, -1, movement, symbols);
  if (!result.ranked) return result;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  result.sizes.erase(result.sizes.begin() + at);
  result.sizes.insert(result.sizes.begin() + at, sizes.begin(), sizes.end());
  if (result.cuts.empty()) return result;
  result.cuts.erase(result.cuts.begin() + at);
  result.cuts.insert(result.cuts.begin() + at, sizes.size(), Cuts{});
  return result;
}

}  // namespace finity
