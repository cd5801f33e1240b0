#include "support/around.h"

#include <algorithm>
#include <cmath>

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
  x.facts.clear();
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

Premises premises_around(const Graph& graph, const Types& types, const Inputs& inputs, std::size_t max_cells,
                         const Besides& besides) {
  Premises given = premises(graph, types, {}, max_cells);
  Besides now = besides;
  for (const ValueId id : graph.main().inputs) {
    const auto input = inputs.find(graph.value(id).name);
    if (input == inputs.end() || graph.value(id).type.kind != Type::Kind::tensor) continue;
    const Tensor* tensor = input->second.tensor();
    if (tensor == nullptr || tensor->dtype() == DType::string || is_complex(tensor->dtype())) continue;
    given.of[id.at()] = std::make_shared<AbsTensor>(around(*tensor, max_cells, now));
    if (besides.alternate) now.spread = opposite(now.spread);
  }
  return given;
}

}  // namespace finity
