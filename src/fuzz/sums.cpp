#include "fuzz/sums.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

// Attributes that are factors.
constexpr std::string_view kFactors[] = {"alpha", "beta"};

struct Wide {
  std::vector<Datum> middle = {}, size = {}, reach = {};  // centre, |centre|, |centre| + radius
  std::int64_t terms = 1;                                 // no sum has more
};

std::optional<Wide> widened(const Node& node, const std::vector<Box>& operands) {
  Wide wide;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Box& box = operands[i];
    if (!node.inputs[i].valid() || !is_float(box.dtype)) {
      const Datum datum = node.inputs[i].valid() ? Datum(tensor_of(box)) : Datum();
      if (node.inputs[i].valid() && !box.is_point()) return std::nullopt;
      for (auto* list : {&wide.middle, &wide.size, &wide.reach}) list->push_back(datum);
      continue;
    }
    std::vector<double> middle, size, reach;
    for (const Range& cell : box.cells) {
      if (!cell.is_finite()) return std::nullopt;
      middle.push_back(cell.lo + (cell.hi - cell.lo) / 2);
      size.push_back(std::abs(middle.back()));
      reach.push_back(cell.magnitude() * (1 + 0x1p-50) + (cell.hi - cell.lo) * 0x1p-50);
    }
    wide.middle.emplace_back(from_elements<double>(DType::float64, box.dims, middle));
    wide.size.emplace_back(from_elements<double>(DType::float64, box.dims, size));
    wide.reach.emplace_back(from_elements<double>(DType::float64, box.dims, reach));
    wide.terms = std::max<std::int64_t>(wide.terms, element_count(box.dims));
  }
  return wide;
}

std::vector<double> evaluated(const Graph& graph, const Node& node, const std::vector<Datum>& operands, Dims& dims) {
  const std::vector<Datum> results = fold(call_of(graph, node), operands);
  dims = results.front().tensor()->dims();
  return elements<double>(*results.front().tensor());
}

Node with_absolute_factors(const Node& node) {
  Node result = node;
  for (const std::string_view name : kFactors) {
    const Attr* attr = node.attrs.find(name);
    if (attr != nullptr && std::holds_alternative<float>(*attr))
      result.attrs.set(std::string(name), std::abs(std::get<float>(*attr)));
  }
  return result;
}

}  // namespace

std::optional<Box> enclose_sum(const Graph& graph, const Node& node, const std::vector<Box>& operands) {
  if (!node.op->traits.linear || operands.empty() || !is_float(operands[0].dtype)) return std::nullopt;
  const std::optional<Wide> wide = widened(node, operands);
  if (!wide) return std::nullopt;
  const DType dtype = operands[0].dtype;
  Box box{.dtype = dtype};
  try {
    const Node absolute = with_absolute_factors(node);
    const std::vector<double> middle = evaluated(graph, node, wide->middle, box.dims);
    const std::vector<double> size = evaluated(graph, absolute, wide->size, box.dims);
    const std::vector<double> reach = evaluated(graph, absolute, wide->reach, box.dims);
    // Products, factors and the last rounding count as terms, too. Narrow formats may add in themselves.
    const double terms = static_cast<double>(wide->terms) + 4;
    const double part = summation_error(dtype, terms) + summation_error(DType::float64, 2 * terms);
    for (std::size_t i = 0; i < middle.size(); ++i) {
      const double error = (reach[i] - size[i]) * (1 + 0x1p-40) + part * reach[i] + terms * min_subnormal(dtype);
      box.cells.push_back(from_bounds(dtype, middle[i] - error, middle[i] + error));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return box;
}

}  // namespace finity::fuzz
