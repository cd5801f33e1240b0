#include "support/around.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/shapes.h"
#include "support/range_probe.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

Range spread_around(DType dtype, const Range& cell, Spread spread) {
  const double far = cell.magnitude() + 1;
  switch (spread) {
    case Spread::near: return from_bounds(dtype, cell.lo, cell.hi + 0.125 + std::abs(cell.hi) / 4);
    case Spread::wide: return from_bounds(dtype, -far, 1.5 * far);
    case Spread::huge: return from_bounds(dtype, -max_finite(dtype) / 8, max_finite(dtype) / 4);
    case Spread::positive: return from_bounds(dtype, 0, far);
    case Spread::negative: return from_bounds(dtype, -far, 0);
    case Spread::apart: break;
  }
  Range apart = from_bounds(dtype, -far, far);
  apart.nonzero = true;
  apart.gap = 0.25;
  return apart;
}

void spread_integers(AbsTensor& x) {
  for (Range& cell : x.cells) {
    cell.lo = std::max(cell.lo - 2, lowest_finite(x.dtype));
    cell.hi = std::min(cell.hi + 3, max_finite(x.dtype));
  }
}

Spread opposite(Spread spread) {
  if (spread == Spread::positive) return Spread::negative;
  return spread == Spread::negative ? Spread::positive : spread;
}

}  // namespace

AbsTensor around(const Tensor& tensor, std::size_t max_cells, const Besides& besides) {
  AbsTensor x = from_tensor(std::make_shared<const Tensor>(tensor), max_cells);
  x.exact = nullptr;
  x.rows = nullptr;
  x.forms.clear();
  x.relations.clear();
  if (!is_float(x.dtype)) {
    if (besides.integers && is_int(x.dtype)) spread_integers(x);
    return x;
  }
  const FloatFormat& format = float_format(x.dtype);
  for (Range& cell : x.cells) {
    if (cell.has_finite()) {
      const Range wider = spread_around(x.dtype, cell, besides.spread);
      if (wider.is_finite()) cell = join(cell, wider);
    }
    cell.pinf |= besides.pinf && format.infinite;
    cell.ninf |= besides.ninf && format.infinite;
    cell.nan |= besides.nan && format.nan;
  }
  return x;
}

namespace {

// Joins cells: of the cuts between elements, some stay.
AbsTensor cut_anywhere(const AbsTensor& x, const Dims& dims, Rng& rng) {
  AbsTensor result = x;
  result.cuts.assign(dims.size(), {});
  std::size_t cells = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    for (std::int64_t cut = 1; cut < dims[axis] && cells < 16; ++cut) {
      if (rng.below(3) != 0) continue;
      result.cuts[axis].push_back(cut);
      cells = cells / result.cuts[axis].size() * (result.cuts[axis].size() + 1);
    }
  }
  result.cells.assign(cells, Range{});
  if (cells == 1) result.cuts.clear();
  std::int64_t element = 0;
  for (IndexCounter at(dims); at.valid(); at.next(), ++element) {
    std::vector<std::size_t> place(dims.size());
    for (std::size_t axis = 0; axis < dims.size() && cells > 1; ++axis) {
      place[axis] = static_cast<std::size_t>(std::ranges::upper_bound(result.cuts[axis], at.index()[axis]) -
                                             result.cuts[axis].begin());
    }
    Range& cell = result.cells[cells > 1 ? cell_at(result, place) : 0];
    cell = join(cell, range_at(x, dims, element));
  }
  return result;
}

AbsTensor mixed(const Tensor& tensor, std::size_t max_cells, Rng& rng) {
  constexpr Spread kSpreads[] = {Spread::near,     Spread::near,     Spread::wide, Spread::huge,
                                 Spread::positive, Spread::negative, Spread::apart};
  const Besides besides{.spread = kSpreads[rng.below(std::size(kSpreads))], .integers = rng.below(4) == 0};
  AbsTensor x = around(tensor, max_cells, besides);
  if (tensor.size() > 0 && tensor.size() <= 4096 && rng.below(2) == 0) x = cut_anywhere(x, tensor.dims(), rng);
  if (!is_float(x.dtype) || rng.below(4) != 0) return x;
  const FloatFormat& format = float_format(x.dtype);
  for (Range& cell : x.cells) {
    cell.pinf |= format.infinite && rng.below(6) == 0;
    cell.ninf |= format.infinite && rng.below(4) == 0;
    cell.nan |= format.nan && rng.below(8) == 0;
  }
  return x;
}

// nullptr where there are no numbers to speak of.
const Tensor* numbers_of(const Graph& graph, ValueId id, const Inputs& inputs) {
  const auto input = inputs.find(graph.value(id).name);
  if (input == inputs.end() || graph.value(id).type.kind != Type::Kind::tensor) return nullptr;
  const Tensor* tensor = input->second.tensor();
  if (tensor == nullptr || tensor->dtype() == DType::string || is_complex(tensor->dtype())) return nullptr;
  return tensor;
}

}  // namespace

Premises mixed_premises(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells, Rng& rng) {
  Premises given = premises(graph, types, {}, max_cells);
  for (const ValueId id : graph.main().inputs) {
    const Tensor* tensor = numbers_of(graph, id, inputs);
    if (tensor != nullptr) given.of[id.at()] = std::make_shared<AbsTensor>(mixed(*tensor, max_cells, rng));
  }
  return given;
}

Premises premises_around(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells,
                         const Besides& besides) {
  Premises given = premises(graph, types, {}, max_cells);
  Besides now = besides;
  for (const ValueId id : graph.main().inputs) {
    const Tensor* tensor = numbers_of(graph, id, inputs);
    if (tensor == nullptr) continue;
    given.of[id.at()] = std::make_shared<AbsTensor>(around(*tensor, max_cells, now));
    if (besides.alternate) now.spread = opposite(now.spread);
  }
  return given;
}

}  // namespace finity
