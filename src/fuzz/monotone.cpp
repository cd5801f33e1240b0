#include "fuzz/monotone.h"

#include <cmath>

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

// The end of a cell; nothing where it holds more than numbers, or NaN or an infinity alone that `op` says nothing of.
std::optional<double> end_of(const Range& cell, const OpDef& op, bool low) {
  if (cell.is_finite()) return low ? cell.lo : cell.hi;
  const int flags = (cell.nan ? 1 : 0) + (cell.pinf ? 1 : 0) + (cell.ninf ? 1 : 0);
  const NotFinite how = not_finite_of(op);
  const bool said = how == NotFinite::said || (how == NotFinite::nan_open && !cell.nan) ||
                    (how == NotFinite::infinities_open && cell.nan);
  if (cell.has_finite() || flags != 1 || !said) return std::nullopt;
  return cell.nan ? std::nan("") : cell.pinf ? kInf : -kInf;
}

Range between(DType dtype, double low, double high) {
  if (std::isnan(low) != std::isnan(high)) return top(dtype);
  return std::isnan(low) || low == high ? point(low) : from_bounds(dtype, low, high);
}

// Floats at one end of their boxes; nothing when one has no end or an operand that says how is no point.
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
      const std::optional<double> end = end_of(cell, *node.op, low);
      if (!end) return std::nullopt;
      values.push_back(*end);
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
      for (std::size_t i = 0; i < from.size(); ++i) {
        const Range cell = between(a->dtype(), from[i], to[i]);
        boxes[k].cells.push_back(cell);
        boxes[k].meant.push_back(!cell.has_finite());
      }
    }
    return boxes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace finity::fuzz
