#include "support/around.h"

#include <cmath>

#include "tensor/float_formats.h"

namespace finity {

AbsTensor around(const Tensor& tensor, std::size_t max_cells, const Besides& besides) {
  AbsTensor x = from_tensor(std::make_shared<const Tensor>(tensor), max_cells);
  x.exact = nullptr;
  if (!is_float(x.dtype)) return x;
  const FloatFormat& format = float_format(x.dtype);
  for (Range& cell : x.cells) {
    if (cell.has_finite()) {
      const Range wider = from_bounds(x.dtype, cell.lo, cell.hi + 0.125 + std::abs(cell.hi) / 4);
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
  for (const ValueId id : graph.main().inputs) {
    const auto input = inputs.find(graph.value(id).name);
    if (input == inputs.end() || graph.value(id).type.kind != Type::Kind::tensor) continue;
    const Tensor* tensor = input->second.tensor();
    if (tensor == nullptr || tensor->dtype() == DType::string || is_complex(tensor->dtype())) continue;
    given.of[id.at()] = std::make_shared<AbsTensor>(around(*tensor, max_cells, besides));
  }
  return given;
}

}  // namespace finity
