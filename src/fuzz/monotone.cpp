#include "fuzz/monotone.h"

#include "base/error.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

// No result falls when a float operand rises, and nothing is rounded.
bool rises(const OpDef& op) {
  const OpTraits& traits = op.traits;
  return traits.rises || traits.elements == ElementSource::moved || traits.elements == ElementSource::joined ||
         traits.order == OrderKind::largest || traits.order == OrderKind::smallest ||
         traits.order == OrderKind::floored;
}

// Floats at one end of their boxes; nothing when one is not finite or an operand that says how is no point.
std::optional<std::vector<Datum>> at_end(const Node& node, const std::vector<Box>& operands, bool low) {
  std::vector<Datum> result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    result.emplace_back();
    if (!node.inputs[i].valid()) continue;
    if (!is_float(operands[i].dtype)) {
      if (!operands[i].is_point()) return std::nullopt;
      result.back() = tensor_of(operands[i]);
      continue;
    }
    std::vector<double> values;
    for (const Range& cell : operands[i].cells) {
      if (!cell.is_finite()) return std::nullopt;
      values.push_back(low ? cell.lo : cell.hi);
    }
    result.back() = from_elements<double>(operands[i].dtype, operands[i].dims, values);
  }
  return result;
}

}  // namespace

std::optional<std::vector<Box>> enclose_monotone(const Graph& graph, const Node& node,
                                                 const std::vector<Box>& operands) {
  if (!rises(*node.op) || operands.empty() || !is_float(operands[0].dtype)) return std::nullopt;
  const auto low = at_end(node, operands, true), high = at_end(node, operands, false);
  if (!low || !high) return std::nullopt;
  try {
    const std::vector<Datum> least = fold(call_of(graph, node), *low), most = fold(call_of(graph, node), *high);
    std::vector<Box> boxes(node.outputs.size());
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      const Tensor* a = least[k].tensor();
      const Tensor* b = most[k].tensor();
      if (a == nullptr || b == nullptr || a->dtype() != operands[0].dtype) continue;
      boxes[k] = {.dtype = a->dtype(), .dims = a->dims()};
      const std::vector<double> from = elements<double>(*a), to = elements<double>(*b);
      for (std::size_t i = 0; i < from.size(); ++i) boxes[k].cells.push_back(from_bounds(a->dtype(), from[i], to[i]));
    }
    return boxes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace finity::fuzz
