// The abstract tensor: a coarse grid over its index space, one Range per cell. No
// cuts is array smashing, every cut is array expansion, cuts where data really
// differ is tensor partitioning. Sizes may be unknown (-1); such an axis is never
// cut. Sequences and optionals are summarised by one unranked cell for all elements.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "domain/form.h"
#include "domain/range.h"
#include "domain/relation.h"
#include "graph/type.h"
#include "tensor/tensor.h"

namespace finity {

// Inner cut positions of one axis, increasing, each in (0, size): cuts {2} of size 5 are blocks [0,2) and [2,5).
using Cuts = std::vector<std::int64_t>;

// Known rows chosen by indices that are only known when the model runs (anchors, schedules): element [p, i, t] is
// table[p, index[i], t], where i stands for `index_rank` axes and t for `behind` axes. Values with the same index are
// computed row by row, for all rows there are.
struct RowTable {
  std::shared_ptr<const Tensor> table = {};
  ValueId index = {};  // identity of the indices
  std::size_t index_rank = 0;
  std::size_t behind = 0;

  std::size_t row_axis() const { return table->rank() - 1 - behind; }
};

// An unknown number of elements along an axis is taken to be at most this; reports say so.
inline constexpr double kManyElements = static_cast<double>(kLargestAssumedSize);

// How many elements there may be along an axis, or altogether.
struct SizeLimits {
  double least = 0;
  double most = kManyElements;
};

struct AbsTensor {
  DType dtype = DType::undefined;
  bool ranked = false;
  Dims sizes = {};                                   // per axis when ranked; -1: unknown
  std::vector<Cuts> cuts = {};                       // empty: no axis is cut; else one list per axis
  std::vector<Range> cells = std::vector<Range>(1);  // row-major over the blocks; one when nothing is cut
  std::vector<Form> forms = {};                      // one per cell, or empty: each cell is its own symbol
  Sym first_symbol = -1;                             // of the cells' own symbols; set when the value is stored
  Relations relations = {};
  // Of each axis; of all elements together when not ranked. Empty: nothing is known. The engine sets them from the
  // type, which alone decides what may be empty.
  std::vector<SizeLimits> limits = {};
  // All elements, where they are known. The cells may be coarser.
  std::shared_ptr<const Tensor> exact = {};
  std::shared_ptr<const RowTable> rows = {};
  // Values with the same identity have the same elements at the same indices (Identity, Dropout at inference, ...).
  ValueId identity = {};

  std::size_t rank() const { return sizes.size(); }
  bool cut() const { return cells.size() > 1; }
  std::size_t blocks(std::size_t axis) const { return cuts.empty() ? 1 : cuts[axis].size() + 1; }
  // Start and length of a block; length -1 when the axis' size is unknown.
  std::int64_t block_start(std::size_t axis, std::size_t block) const;
  std::int64_t block_length(std::size_t axis, std::size_t block) const;
  Range hull() const;
  SizeLimits size_limits(std::size_t axis) const;
  // Elements along the axes; all elements of a value without a rank.
  double least_count(std::uint32_t axes) const;
  double most_count(std::uint32_t axes) const;
  bool may_be_empty() const { return !(least_count(~std::uint32_t{0}) >= 1); }
};

// Blocks of a cell, axis by axis: the cell's place in the grid.
std::vector<std::size_t> cell_place(const AbsTensor& x, std::size_t cell);
std::size_t cell_at(const AbsTensor& x, std::span<const std::size_t> place);
// Sizes of the cell's block; -1 where unknown.
Dims cell_sizes(const AbsTensor& x, std::size_t cell);
// The cell's explicit form, else the constant of a point, else the cell's own symbol, else an invalid form.
Form cell_form(const AbsTensor& x, std::size_t cell);

// ---- making ----------------------------------------------------------------
AbsTensor uniform(const Type& type, const Range& range);  // one cell
AbsTensor uniform(DType dtype, Dims sizes, const Range& range);
// Limits of sizes as the type of x says.
void set_limits(AbsTensor& x, const Type& type);
// Cells where the elements differ, at most max_cells. `exact` is set when there are at most kExactElements.
inline constexpr std::int64_t kExactElements = std::int64_t{1} << 16;
AbsTensor from_tensor(std::shared_ptr<const Tensor> tensor, std::size_t max_cells);
// Smallest range of a tensor's elements.
Range range_of(const Tensor& tensor);

// ---- lattice (same dtype; unequal grids are refined to a common one or smashed) -----------
AbsTensor join(const AbsTensor& a, const AbsTensor& b, std::size_t max_cells);
AbsTensor widen(const AbsTensor& a, const AbsTensor& b);
bool is_subset(const AbsTensor& a, const AbsTensor& b);
// What two descriptions of the same tensor say together: cells of both, the relations of a.
AbsTensor meet(const AbsTensor& a, const AbsTensor& b, std::size_t max_cells, Symbols* symbols);

// ---- grids -----------------------------------------------------------------
// Adds cuts; cells and forms are repeated, symbols become those of the slices.
AbsTensor refined(const AbsTensor& x, const std::vector<Cuts>& cuts, Symbols* symbols);
// Merges equal neighbours, then everything along the finest axes, until at most max_cells are left. Forms are kept only
// where nothing was merged; they are dropped otherwise.
void simplify(AbsTensor& x, std::size_t max_cells);
// Removes all cuts (forms are dropped unless there was one cell).
AbsTensor smashed(const AbsTensor& x);
// Same grid, f on every cell; forms and relations are dropped.
AbsTensor map_cells(const AbsTensor& x, DType dtype, const std::function<Range(const Range&)>& f);

}  // namespace finity
