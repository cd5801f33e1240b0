#include "ops/linear/contract_range.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/shapes.h"

namespace finity {

namespace {

// Sums of weights kept at once; more segments than this are not told apart.
constexpr std::size_t kMostSums = 1U << 22;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

const Cuts& cuts_of(const AbsTensor& x, std::size_t axis) {
  static const Cuts kNone;
  return x.cuts.empty() ? kNone : x.cuts[axis];
}

// The operand's cuts of an axis, where it really extends along it.
const Cuts& cuts_along(const AbsTensor& x, int axis, std::int64_t size) {
  static const Cuts kNone;
  return axis < 0 || size < 0 || x.sizes[at(axis)] != size ? kNone : cuts_of(x, at(axis));
}

Cuts united(const Cuts& a, const Cuts& b) {
  Cuts result;
  std::ranges::set_union(a, b, std::back_inserter(result));
  return result;
}

// Block of the operand that holds a position.
std::size_t block_holding(const Cuts& cuts, std::int64_t position) {
  return static_cast<std::size_t>(std::ranges::upper_bound(cuts, position) - cuts.begin());
}

// Steps between neighbouring blocks of an axis in the list of cells.
std::vector<std::size_t> cell_steps(const AbsTensor& x) {
  std::vector<std::size_t> steps(x.rank(), 1);
  for (std::size_t axis = x.rank(); axis-- > 1;) steps[axis - 1] = steps[axis] * x.blocks(axis);
  return steps;
}

SumGrid empty_grid(const Contraction& axes) {
  SumGrid grid;
  grid.ranked = true;
  for (const ContractedAxis& axis : axes.out) grid.sizes.push_back(axis.size);
  grid.cuts.resize(axes.out.size());
  return grid;
}

// Number of terms of a sum: known exactly, or somewhere from 0 up.
struct Count {
  double least = 1, most = 1;

  // `unknown`: the most there are when the size (-1) is not known.
  void times(std::int64_t size, double unknown) {
    least *= size >= 0 ? static_cast<double>(size) : 0.0;
    most *= size >= 0 ? static_cast<double>(size) : unknown;
  }
};

// The most indices of an axis of unknown size.
double most_along(const AbsTensor& x, int own) {
  if (own < 0) return 1;
  return x.ranked && at(own) < x.rank() ? x.size_limits(at(own)).most : kManyElements;
}
double most_along(const AbsTensor& left, const AbsTensor& right, const ContractedAxis& axis) {
  return std::max(most_along(left, axis.left), most_along(right, axis.right));
}

// ---- two abstract operands -----------------------------------------------------

// Where the blocks of one axis of the result, or of the sum, lie in an operand's list of cells.
struct AxisBlocks {
  std::vector<std::size_t> left = {}, right = {};  // offsets per block
  std::vector<std::int64_t> lengths = {};          // -1: unknown
  double most = kManyElements;                     // length, when unknown
};

AxisBlocks blocks_of(const AbsTensor& left, const AbsTensor& right, const ContractedAxis& axis, const Cuts& cuts) {
  AxisBlocks blocks;
  blocks.most = most_along(left, right, axis);
  const auto offset = [&](const AbsTensor& x, int own, std::int64_t position) -> std::size_t {
    if (own < 0 || x.blocks(at(own)) == 1) return 0;
    return block_holding(x.cuts[at(own)], x.sizes[at(own)] == axis.size ? position : 0) * cell_steps(x)[at(own)];
  };
  for (std::size_t block = 0; block <= cuts.size(); ++block) {
    const std::int64_t start = block == 0 ? 0 : cuts[block - 1];
    const std::int64_t end = block < cuts.size() ? cuts[block] : axis.size;
    blocks.left.push_back(offset(left, axis.left, start));
    blocks.right.push_back(offset(right, axis.right, start));
    blocks.lengths.push_back(axis.size < 0 ? -1 : end - start);
  }
  return blocks;
}

// One combination of blocks of several axes.
struct Combination {
  std::size_t left = 0, right = 0;
  Count count = {};
};

std::vector<Combination> combinations(std::span<const AxisBlocks> axes) {
  std::vector<Combination> result(1);
  for (const AxisBlocks& axis : axes) {
    std::vector<Combination> next;
    for (const Combination& so_far : result) {
      for (std::size_t block = 0; block < axis.lengths.size(); ++block) {
        Combination one = so_far;
        one.left += axis.left[block];
        one.right += axis.right[block];
        one.count.times(axis.lengths[block], axis.most);
        next.push_back(one);
      }
    }
    result = std::move(next);
  }
  return result;
}

Cuts common_cuts(const AbsTensor& left, const AbsTensor& right, const ContractedAxis& axis) {
  return united(cuts_along(left, axis.left, axis.size), cuts_along(right, axis.right, axis.size));
}

// Every cut axis of an operand must be one along which it extends fully; otherwise its blocks cannot be found.
bool blocks_fit(const AbsTensor& x, const Contraction& axes, bool is_left) {
  if (!x.cut()) return true;
  std::vector<bool> fits(x.rank(), false);
  for (const auto* list : {&axes.out, &axes.summed}) {
    for (const ContractedAxis& axis : *list) {
      const int own = is_left ? axis.left : axis.right;
      if (own >= 0 && x.sizes[at(own)] == axis.size) fits[at(own)] = true;
    }
  }
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (x.blocks(axis) > 1 && !fits[axis]) return false;
  }
  return true;
}

SumGrid contract_blocks(const AbsTensor& left, const AbsTensor& right, const Contraction& axes, std::size_t max_cells) {
  SumGrid grid = empty_grid(axes);
  std::vector<AxisBlocks> out, summed;
  std::size_t work = 1;
  for (std::size_t i = 0; i < axes.out.size(); ++i) {
    grid.cuts[i] = common_cuts(left, right, axes.out[i]);
    out.push_back(blocks_of(left, right, axes.out[i], grid.cuts[i]));
    work *= grid.cuts[i].size() + 1;
  }
  for (const ContractedAxis& axis : axes.summed) {
    summed.push_back(blocks_of(left, right, axis, common_cuts(left, right, axis)));
    work *= summed.back().lengths.size();
  }
  // Cuts of both may multiply; past this the finer operand is given up.
  if (work > 64 * std::max<std::size_t>(max_cells, 64)) {
    const bool keep_left = left.cells.size() < right.cells.size();
    return contract_blocks(keep_left ? left : smashed(left), keep_left ? smashed(right) : right, axes, max_cells);
  }
  const std::vector<Combination> parts = combinations(summed);
  for (const Combination& cell : combinations(out)) {
    DotSum sum;
    for (const Combination& part : parts) {
      add_products(sum, left.cells[cell.left + part.left], right.cells[cell.right + part.right], part.count.least,
                   part.count.most);
    }
    grid.cells.push_back(sum);
  }
  return grid;
}

// ---- one operand known -----------------------------------------------------------

// The known operand ("weights") against the other ("x").
struct Sides {
  const AbsTensor* x = nullptr;
  const Weights* weights = nullptr;
  std::span<const double> offsets = {};
  bool weights_left = false;

  int x_axis(const ContractedAxis& axis) const { return weights_left ? axis.right : axis.left; }
  int weight_axis(const ContractedAxis& axis) const { return weights_left ? axis.left : axis.right; }
  bool varies(const ContractedAxis& axis) const {
    const int own = weight_axis(axis);
    return own >= 0 && weights->dims[at(own)] != 1;
  }
};

class KnownContraction {
 public:
  KnownContraction(const Sides& sides, const Contraction& axes, std::size_t max_cells)
      : sides_(sides), axes_(axes), max_cells_(max_cells) {}

  SumGrid run(std::span<const double> addend) {
    addend_ = addend;
    sum_weights();
    cut_result();
    place_columns();
    grid_.cells.assign(grid_.cell_count(), DotSum{.empty = true});
    list_rows();
    for (const Row& row : rows_) add_row(row);
    return std::move(grid_);
  }

 private:
  // A combination of x's blocks along the axes of the result.
  struct Row {
    std::size_t x = 0;     // first cell
    std::size_t cell = 0;  // contribution to the cell of the result
    std::vector<std::size_t> shared_blocks = {};
  };

  void sum_weights() {
    std::vector<WeightAxis> kinds;
    for (const std::int64_t size : sides_.weights->dims) kinds.push_back({size, false});
    int summed_axes = 0;
    const ContractedAxis* last = nullptr;
    for (const ContractedAxis& axis : axes_.summed) {
      if (sides_.weight_axis(axis) >= 0) kinds[at(sides_.weight_axis(axis))].summed = true;
      if (!sides_.varies(axis)) {
        // x alone extends along it: every product occurs so many times.
        if (sides_.x_axis(axis) >= 0) repeats_.times(axis.size, most_along(*sides_.x, sides_.x_axis(axis)));
        continue;
      }
      ++summed_axes;
      last = &axis;
      depth_ *= axis.size;
    }
    std::size_t columns = 1;
    for (const WeightAxis& kind : kinds) columns *= kind.summed ? 1 : static_cast<std::size_t>(kind.size);
    if (summed_axes == 1) {
      cuts_ = cuts_along(*sides_.x, sides_.x_axis(*last), last->size);
      cut_axis_ = sides_.x_axis(*last);
    }
    if ((cuts_.size() + 1) * columns > kMostSums) cuts_.clear();
    sums_ = weight_sums(sides_.weights->data, kinds, cuts_, sides_.offsets);
  }

  // The result is cut where x is; what is left of the cells goes to the axes of the weights, the first ones first.
  void cut_result() {
    grid_ = empty_grid(axes_);
    std::size_t used = 1;
    for (std::size_t i = 0; i < axes_.out.size(); ++i) {
      grid_.cuts[i] = cuts_along(*sides_.x, sides_.x_axis(axes_.out[i]), axes_.out[i].size);
      used *= grid_.cuts[i].size() + 1;
    }
    std::size_t left = std::max<std::size_t>(max_cells_ / used, 1);
    for (std::size_t i = 0; i < axes_.out.size(); ++i) {
      if (!grid_.cuts[i].empty() || !sides_.varies(axes_.out[i]) || axes_.out[i].size < 2) continue;
      grid_.cuts[i] = even_cuts(axes_.out[i].size, left);
      left /= grid_.cuts[i].size() + 1;
    }
    steps_.assign(axes_.out.size(), 1);
    for (std::size_t i = axes_.out.size(); i-- > 1;) steps_[i - 1] = steps_[i] * (grid_.cuts[i].size() + 1);
  }

  // Which part of the result's cell number a column decides, and its blocks along axes that x is cut along too.
  void place_columns() {
    std::vector<std::size_t> out_of(sides_.weights->dims.size(), axes_.out.size());
    for (std::size_t i = 0; i < axes_.out.size(); ++i) {
      if (sides_.varies(axes_.out[i])) out_of[at(sides_.weight_axis(axes_.out[i]))] = i;
      const int own = sides_.x_axis(axes_.out[i]);
      const bool x_cut = own >= 0 && !cuts_along(*sides_.x, own, axes_.out[i].size).empty();
      if (sides_.varies(axes_.out[i]) && x_cut) shared_.push_back(i);
    }
    Dims free;
    std::vector<std::size_t> result_axis;
    for (std::size_t axis = 0; axis < out_of.size(); ++axis) {
      if (out_of[axis] == axes_.out.size()) continue;
      free.push_back(sides_.weights->dims[axis]);
      result_axis.push_back(out_of[axis]);
    }
    column_cell_.reserve(sums_.columns);
    for (IndexCounter index(free); index.valid(); index.next()) {
      std::size_t cell = 0;
      for (std::size_t i = 0; i < free.size(); ++i) {
        const std::size_t block = block_holding(grid_.cuts[result_axis[i]], index.index()[i]);
        if (std::ranges::find(shared_, result_axis[i]) == shared_.end()) cell += block * steps_[result_axis[i]];
        else column_shared_.push_back(block);
      }
      column_cell_.push_back(cell);
    }
  }

  void list_rows() {
    rows_.push_back({});
    const AbsTensor& x = *sides_.x;
    const std::vector<std::size_t> x_steps = cell_steps(x);
    for (std::size_t i = 0; i < axes_.out.size(); ++i) {
      const int own = sides_.x_axis(axes_.out[i]);
      if (own < 0 || cuts_along(x, own, axes_.out[i].size).empty()) continue;
      const bool is_shared = std::ranges::find(shared_, i) != shared_.end();
      std::vector<Row> next;
      for (const Row& row : rows_) {
        for (std::size_t block = 0; block < x.blocks(at(own)); ++block) {
          Row one = row;
          one.x += block * x_steps[at(own)];
          one.cell += block * steps_[i];
          if (is_shared) one.shared_blocks.push_back(block);
          next.push_back(std::move(one));
        }
      }
      rows_ = std::move(next);
    }
  }

  // x along the summed axis, for one row: per segment.
  std::vector<Range> segments_of(const Row& row) const {
    const AbsTensor& x = *sides_.x;
    const std::vector<std::size_t> steps = cell_steps(x);
    std::vector<Range> result(sums_.segments);
    // All blocks along axes that the result does not have, but for the one with the segments.
    std::vector<std::size_t> cells{row.x};
    for (const ContractedAxis& axis : axes_.summed) {
      const int own = sides_.x_axis(axis);
      if (own < 0 || x.blocks(at(own)) == 1 || (own == cut_axis_ && result.size() > 1)) continue;
      std::vector<std::size_t> next;
      for (const std::size_t cell : cells) {
        for (std::size_t block = 0; block < x.blocks(at(own)); ++block) next.push_back(cell + block * steps[at(own)]);
      }
      cells = std::move(next);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t offset = result.size() > 1 ? i * steps[at(cut_axis_)] : 0;
      for (const std::size_t cell : cells) result[i] = join(result[i], x.cells[cell + offset]);
    }
    return result;
  }

  double segment_length(std::size_t segment) const {
    const std::int64_t start = segment == 0 ? 0 : cuts_[segment - 1];
    const std::int64_t end = segment < cuts_.size() ? cuts_[segment] : depth_;
    return static_cast<double>(end - start);
  }

  void add_row(const Row& row) {
    const std::vector<Range> segments = segments_of(row);
    const bool infinite = std::ranges::any_of(segments, [](const Range& x) { return x.pinf || x.ninf; });
    const bool zeros = infinite && weights_have_zeros();
    const std::size_t shared = shared_.size();
    for (std::size_t column = 0; column < sums_.columns; ++column) {
      if (shared > 0 && !std::equal(row.shared_blocks.begin(), row.shared_blocks.end(),
                                    column_shared_.begin() + static_cast<std::ptrdiff_t>(column * shared))) {
        continue;
      }
      DotSum sum;
      for (std::size_t segment = 0; segment < segments.size(); ++segment) {
        add_weighted(sum, segments[segment], sums_.positive(segment, column), sums_.negative(segment, column),
                     segment_length(segment), zeros);
      }
      if (!(repeats_.least == 1 && repeats_.most == 1)) repeat(sum);
      if (!addend_.empty()) add_term(sum, point(addend_[column]));
      DotSum& cell = grid_.cells[row.cell + column_cell_[column]];
      cell = join(cell, sum);
    }
  }

  bool weights_have_zeros() {
    if (!zeros_) zeros_ = !sides_.offsets.empty() || has_zero(sides_.weights->data);
    return *zeros_;
  }

  void repeat(DotSum& sum) const {
    sum.lo *= sum.lo < 0 ? repeats_.most : repeats_.least;
    sum.hi *= sum.hi > 0 ? repeats_.most : repeats_.least;
    for (double* part : {&sum.below, &sum.above, &sum.magnitude, &sum.factors}) *part *= repeats_.most;
    if (repeats_.least == 0) sum.empty = false;
  }

  const Sides& sides_;
  const Contraction& axes_;
  std::size_t max_cells_;
  std::span<const double> addend_;
  Count repeats_;           // of every product, by summed axes that only x has
  std::int64_t depth_ = 1;  // weights of one sum
  Cuts cuts_;               // of x along the summed axis, where they can be told apart
  int cut_axis_ = -1;
  std::optional<bool> zeros_;  // asked for only where infinities are
  WeightSums sums_;
  SumGrid grid_;
  std::vector<std::size_t> steps_;   // between the result's blocks
  std::vector<std::size_t> shared_;  // axes of the result along which both vary and x is cut
  std::vector<std::size_t> column_cell_, column_shared_;
  std::vector<Row> rows_;
};

// ---- rows that sum to a known value ------------------------------------------------

// Softmax's rows: every sum over the axis lies in a range.
const RowBound* row_sum_over(const AbsTensor& x, int axis) {
  const RowBound* rows = axis >= 0 ? find_rows(x.relations, Of::sum) : nullptr;
  if (rows == nullptr || rows->axes != 1U << axis || !rows->in.is_finite() || !(rows->in.lo >= 0)) return nullptr;
  return rows;
}

// What the other operand holds in the part of the result that a cell stands for.
Range values_behind(const AbsTensor& values, const Contraction& axes, bool is_left, const SumGrid& grid,
                    const std::vector<std::size_t>& place) {
  std::vector<Extent> extents(values.rank());
  for (std::size_t i = 0; i < axes.out.size(); ++i) {
    const int own = is_left ? axes.out[i].left : axes.out[i].right;
    if (own < 0 || values.sizes[at(own)] != axes.out[i].size) continue;
    extents[at(own)] = {grid.block_start(i, place[i]), grid.block_end(i, place[i])};
  }
  return hull_within(values, extents);
}

const RowBound* summed_rows(const AbsTensor& x, const Contraction& axes, bool is_left) {
  if (axes.summed.size() != 1) return nullptr;
  return row_sum_over(x, is_left ? axes.summed[0].left : axes.summed[0].right);
}

void use_row_sums(const AbsTensor& rows, const AbsTensor& values, const Contraction& axes, bool rows_left,
                  SumGrid& grid) {
  const RowBound* sums = summed_rows(rows, axes, rows_left);
  if (sums == nullptr) return;
  for (std::size_t cell = 0; cell < grid.cells.size(); ++cell) {
    const Range range = values_behind(values, axes, !rows_left, grid, place_of(grid, cell));
    if (range.has_finite() && !grid.cells[cell].empty) {
      grid.cells[cell] = meet(grid.cells[cell], weighted_mean(sums->in, range));
    }
  }
}

}  // namespace

std::optional<Weights> weights_of(RangeCall& call, std::size_t i) {
  if (!call.has_range(i)) return std::nullopt;
  const AbsTensor& range = call.in(i);
  const RangeCall::Operand& operand = call.operand(i);
  const auto fits = [&](DType dtype, const Dims& dims) {
    return dtype == range.dtype && is_weight_type(dtype) && (!range.ranked || dims == range.sizes);
  };
  const ConstantPtr& constant = operand.constant;
  const bool in_memory = operand.value != nullptr || range.exact;
  if (!in_memory && constant && constant->missing().empty() && !constant->raw().empty()) {
    const auto bytes = static_cast<std::size_t>(element_count(constant->dims()) * info(constant->dtype()).memory_bytes);
    if (!fits(constant->dtype(), constant->dims()) || constant->raw().size() < bytes) return std::nullopt;
    return Weights{{constant->dtype(), constant->raw().first(bytes)}, constant->dims()};
  }
  const Tensor* tensor = call.value(i);
  if (tensor == nullptr || !fits(tensor->dtype(), tensor->dims())) return std::nullopt;
  return Weights{{tensor->dtype(), tensor->bytes()}, tensor->dims()};
}

Contracted contract(const RangeCall& call, const ContractOperand& left, const ContractOperand& right,
                    const Contraction& axes, std::span<const double> addend) {
  Contracted result;
  Count terms;
  for (const ContractedAxis& axis : axes.summed) terms.times(axis.size, most_along(*left.range, *right.range, axis));
  const bool by_left = right.weights == nullptr && left.weights != nullptr;
  const ContractOperand& other = by_left ? right : left;
  const bool known = right.weights != nullptr || by_left;
  const AbsTensor x = known && !blocks_fit(*other.range, axes, !by_left) ? smashed(*other.range) : *other.range;
  // The bounds by sums of rows hold without the addend.
  if (summed_rows(*left.range, axes, true) != nullptr || summed_rows(*right.range, axes, false) != nullptr) addend = {};
  if (known) {
    const Sides sides{&x, by_left ? left.weights : right.weights, by_left ? left.offsets : right.offsets, by_left};
    result.sums = KnownContraction(sides, axes, call.max_cells()).run(addend);
    result.added = !addend.empty();
  } else {
    const AbsTensor& a = *left.range;
    const AbsTensor& b = *right.range;
    result.sums = contract_blocks(blocks_fit(a, axes, true) ? a : smashed(a),
                                  blocks_fit(b, axes, false) ? b : smashed(b), axes, call.max_cells());
  }
  use_row_sums(*left.range, *right.range, axes, true, result.sums);
  use_row_sums(*right.range, *left.range, axes, false, result.sums);
  result.sums.terms = terms.most + (result.added ? 1 : 0);
  return result;
}

SumGrid smashed_products(const AbsTensor& left, const AbsTensor& right, double least, double most) {
  SumGrid grid;
  DotSum sum;
  add_products(sum, left.hull(), right.hull(), least, most);
  grid.cells.push_back(sum);
  grid.terms = most;
  return grid;
}

void add_tensor(SumGrid& grid, const AbsTensor& x, double factor) {
  grid.terms += 2;
  const bool aligned = grid.ranked && x.ranked && x.cut() && x.rank() <= grid.sizes.size();
  for (std::size_t cell = 0; cell < grid.cells.size(); ++cell) {
    std::vector<Extent> extents(aligned ? x.rank() : 0);
    const std::vector<std::size_t> place = aligned ? place_of(grid, cell) : std::vector<std::size_t>{};
    for (std::size_t own = 0; own < extents.size(); ++own) {
      const std::size_t axis = own + grid.sizes.size() - x.rank();
      if (x.sizes[own] != grid.sizes[axis]) continue;
      extents[own] = {grid.block_start(axis, place[axis]), grid.block_end(axis, place[axis])};
    }
    add_products(grid.cells[cell], hull_within(x, extents), point(factor), 1, 1);
  }
}

}  // namespace finity
