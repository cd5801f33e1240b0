#include "domain/abs_tensor.h"

#include <algorithm>

#include "domain/grid.h"

namespace finity {

std::int64_t AbsTensor::block_start(std::size_t axis, std::size_t block) const {
  return block == 0 || cuts.empty() ? 0 : cuts[axis][block - 1];
}

std::int64_t AbsTensor::block_length(std::size_t axis, std::size_t block) const {
  if (blocks(axis) == 1) return sizes[axis];
  const Cuts& inner = cuts[axis];
  const std::int64_t end = block < inner.size() ? inner[block] : sizes[axis];
  return end - block_start(axis, block);
}

Range AbsTensor::hull() const {
  Range result = cells[0];
  for (std::size_t i = 1; i < cells.size(); ++i) result = join(result, cells[i]);
  return result;
}

double AbsTensor::least_count(std::uint32_t axes) const {
  if (!ranked) return 0;
  double count = 1;
  for (std::size_t axis = 0; axis < rank() && axis < 32; ++axis) {
    if ((axes >> axis & 1U) != 0) count *= static_cast<double>(sizes[axis] < 0 ? 1 : sizes[axis]);
  }
  return count;
}

double AbsTensor::most_count(std::uint32_t axes) const {
  if (!ranked) return kManyElements;
  double count = 1;
  bool unknown = false;
  for (std::size_t axis = 0; axis < rank() && axis < 32; ++axis) {
    if ((axes >> axis & 1U) == 0) continue;
    if (sizes[axis] < 0) {
      unknown = true;
    } else {
      count *= static_cast<double>(sizes[axis]);
    }
  }
  return unknown ? count * kManyElements : count;
}

std::vector<std::size_t> cell_place(const AbsTensor& x, std::size_t cell) {
  std::vector<std::size_t> place(x.rank(), 0);
  for (std::size_t axis = x.rank(); axis-- > 0;) {
    const std::size_t blocks = x.blocks(axis);
    place[axis] = cell % blocks;
    cell /= blocks;
  }
  return place;
}

std::size_t cell_at(const AbsTensor& x, std::span<const std::size_t> place) {
  std::size_t cell = 0;
  for (std::size_t axis = 0; axis < place.size(); ++axis) cell = cell * x.blocks(axis) + place[axis];
  return cell;
}

Dims cell_sizes(const AbsTensor& x, std::size_t cell) {
  if (!x.cut()) return x.sizes;
  const std::vector<std::size_t> place = cell_place(x, cell);
  Dims sizes(x.rank());
  for (std::size_t axis = 0; axis < x.rank(); ++axis) sizes[axis] = x.block_length(axis, place[axis]);
  return sizes;
}

Form cell_form(const AbsTensor& x, std::size_t cell) {
  if (!x.forms.empty() && x.forms[cell].valid) return x.forms[cell];
  if (x.cells[cell].is_point()) return constant_form(x.cells[cell].lo);
  if (!x.forms.empty() || x.first_symbol < 0) return {};
  return symbol_form(x.first_symbol + static_cast<Sym>(cell));
}

AbsTensor uniform(const Type& type, const Range& range) {
  const Type* inner = &type;
  while (inner->element) inner = inner->element.get();
  AbsTensor result;
  result.dtype = inner->dtype;
  result.cells = {range};
  result.ranked = type.is_tensor() && type.ranked;
  if (!result.ranked) return result;
  result.sizes.reserve(type.shape.size());
  for (const Dim& dim : type.shape) result.sizes.push_back(dim.known() ? dim.size : -1);
  return result;
}

AbsTensor uniform(DType dtype, Dims sizes, const Range& range) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = true;
  result.sizes = std::move(sizes);
  result.cells = {range};
  return result;
}

AbsTensor map_cells(const AbsTensor& x, DType dtype, const std::function<Range(const Range&)>& f) {
  AbsTensor result = empty_grid(dtype, x.sizes, x.cuts);
  result.ranked = x.ranked;
  for (std::size_t i = 0; i < x.cells.size(); ++i) result.cells[i] = f(x.cells[i]);
  return result;
}

}  // namespace finity
