// Helpers of abs_tensor and movement: walking over the cells of a grid and moving
// to another one. Not for range rules, which use abs_tensor.h and movement.h.
#pragma once

#include <cstdint>
#include <vector>

#include "domain/abs_tensor.h"

namespace finity {

std::vector<std::size_t> block_counts(const AbsTensor& x);

// Calls f(place) for every place of a grid with `counts` blocks per axis, in row-major order.
template <class F>
void for_each_place(const std::vector<std::size_t>& counts, F f) {
  std::vector<std::size_t> place(counts.size(), 0);
  for (;;) {
    f(place);
    std::size_t axis = counts.size();
    while (axis > 0 && ++place[axis - 1] == counts[axis - 1]) place[--axis] = 0;
    if (axis == 0) return;
  }
}

// Number of cells that `cuts` (one list per axis, or none) make; saturates.
std::size_t cell_count(const std::vector<Cuts>& cuts);
Cuts united(const Cuts& a, const Cuts& b);
// Sets sizes and cuts with empty cells, without forms, relations, exact elements and identity.
AbsTensor empty_grid(DType dtype, Dims sizes, std::vector<Cuts> cuts);
// Stores forms, or none when no cell has a valid one.
void set_forms(AbsTensor& x, std::vector<Form> forms);
// The same tensor on a coarser grid: `cuts` must be a subset of x's. Cells that fall together are joined.
AbsTensor coarsened(const AbsTensor& x, std::vector<Cuts> cuts);
// Without cuts along one axis.
AbsTensor uncut(const AbsTensor& x, std::size_t axis);
// The same tensor with its rank forgotten.
AbsTensor unranked(const AbsTensor& x);
// An unmoved copy of the cells as a new value: no relations, exact elements, identity and own symbols.
AbsTensor detached(const AbsTensor& x);

}  // namespace finity
