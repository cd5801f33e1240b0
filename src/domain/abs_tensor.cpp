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

SizeLimits AbsTensor::size_limits(std::size_t axis) const {
  const auto size = static_cast<double>(sizes[axis]);
  if (size >= 0) return {.least = size, .most = size};
  return axis < limits.size() ? limits[axis] : SizeLimits{};
}

double AbsTensor::least_count(std::uint32_t axes) const {
  if (!ranked) return limits.empty() ? 0 : limits[0].least;
  double count = 1;
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    if (axis >= 32 || (axes >> axis & 1U) != 0) count *= size_limits(axis).least;
  }
  return count;
}

double AbsTensor::most_count(std::uint32_t axes) const {
  if (!ranked) return limits.empty() ? kManyElements : limits[0].most;
  double count = 1;
  for (std::size_t axis = 0; axis < rank(); ++axis) {
    if (axis >= 32 || (axes >> axis & 1U) != 0) count *= size_limits(axis).most;
  }
  return count;
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
  if (result.ranked) {
    result.sizes.reserve(type.shape.size());
    for (const Dim& dim : type.shape) result.sizes.push_back(dim.known() ? dim.size : -1);
  }
  set_limits(result, type);
  return result;
}

void set_limits(AbsTensor& x, const Type& type) {
  const auto limits_of = [](const Dim& dim) {
    return SizeLimits{.least = static_cast<double>(dim.least_size()), .most = static_cast<double>(dim.most_size())};
  };
  x.limits.clear();
  if (!type.is_tensor()) return;
  if (!x.ranked) x.limits = {limits_of(type.elements())};
  else if (type.ranked && type.shape.size() == x.rank() && !std::ranges::all_of(type.shape, &Dim::known)) {
    for (const Dim& dim : type.shape) x.limits.push_back(limits_of(dim));
  }
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
  result.limits = x.limits;
  for (std::size_t i = 0; i < x.cells.size(); ++i) result.cells[i] = f(x.cells[i]);
  return result;
}

}  // namespace finity
