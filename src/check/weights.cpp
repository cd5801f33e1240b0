#include "check/weights.h"

#include <algorithm>

#include "check/constant_scan.h"
#include "ops/table/op.h"

namespace finity {

namespace {

bool has_zero_points(const Signature& signature) {
  return std::ranges::any_of(signature.inputs,
                             [](const Param& p) { return p.name.find("zero_point") != std::string::npos; });
}

WeightUse use_of(const Node& node, std::size_t operand) {
  if (node.op == nullptr) return {.parameter = true};
  const Signature& signature = signature_of(*node.op);
  const Param* param = Signature::param(signature.inputs, operand);
  if (param == nullptr) return {.parameter = true};
  const bool of_quantisation = has_zero_points(signature) && param->name.find("scale") != std::string::npos;
  const bool fixed = param->type.variable.empty() && param->type.kind != Type::Kind::unknown;
  return {.parameter = !fixed && !of_quantisation, .variance = param->name == "input_var"};
}

}  // namespace

WeightUses weight_uses(const Graph& graph) {
  WeightUses uses(graph.values().size());
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || !graph.value(node.inputs[i]).constant) continue;
      const WeightUse use = use_of(node, i);
      uses[node.inputs[i].at()].parameter |= use.parameter;
      uses[node.inputs[i].at()].variance |= use.variance;
    }
  }
  return uses;
}

std::optional<Range> weight_range(const Constant& constant, WeightMode mode, const WeightUse& use) {
  const DType dtype = constant.dtype();
  const bool trainable = use.parameter && is_float(dtype) && element_count(constant.dims()) > 1;
  if (mode == WeightMode::trained || !trainable) return std::nullopt;
  if (mode == WeightMode::any) return any_finite(dtype);
  if (!constant.missing().empty()) return std::nullopt;
  const Range file = scan_constant(constant);
  if (!file.has_finite()) return std::nullopt;
  double lo = -1;
  double hi = 1;
  if (file.lo != 0 || file.hi != 0) {
    if (file.lo == file.hi) return std::nullopt;
    lo = file.lo - (file.hi - file.lo);
    hi = file.hi + (file.hi - file.lo);
  }
  if (use.variance) lo = std::max(lo, 0.0);
  const double max = max_finite(dtype);
  Range range = from_bounds(dtype, std::clamp(lo, -max, max), std::clamp(hi, -max, max));
  range.nan = file.nan;
  range.pinf = file.pinf;
  range.ninf = file.ninf;
  return range;
}

}  // namespace finity
