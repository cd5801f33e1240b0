// Nodes whose element type nobody knows: behind a custom op, say, that declares no
// type. What a range rule says depends on the format, so none is asked. The op's
// sites stay undecided.
#include <algorithm>

#include "check/analyzer.h"

namespace finity {

namespace {

bool may_be_float(const DTypeSet& dtypes) {
  for (int code = 1; code < kDTypeCount; ++code) {
    if (dtypes[static_cast<std::size_t>(code)] && is_float(static_cast<DType>(code))) return true;
  }
  return false;
}

// Of the elements, for sequences and optionals.
DType element_dtype(const Type& type) {
  const Type* inner = &type;
  while (inner->element) inner = inner->element.get();
  return inner->dtype;
}

// The first of these that is a number in some format, but nobody knows in which.
ValueId first_untyped(const std::vector<Param>& params, const std::vector<ValueId>& values, const Types& types) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Param* param = Signature::param(params, i);
    if (!values[i].valid() || param == nullptr || param->type.kind == Type::Kind::unknown) continue;
    if (element_dtype(types[values[i]]) == DType::undefined && may_be_float(param->type.dtypes)) return values[i];
  }
  return {};
}

}  // namespace

ValueId Analyzer::untyped_value(const Node& node) const {
  if (node.op->shape_only) return {};
  const Signature& signature = signature_of(*node.op);
  const ValueId operand = first_untyped(signature.inputs, node.inputs, types_);
  return operand.valid() ? operand : first_untyped(signature.outputs, node.outputs, types_);
}

void Analyzer::pass_untyped(NodeId id, const Node& node, ValueId untyped) {
  const std::string reason = "the element type of '" + graph_.value(untyped).name + "' is not known";
  const auto undecided = [&](std::string_view rule, int operand, ValueId value) {
    if (rule.empty() || !value.valid()) return;
    const int index =
        record(id, value, {.rule = rule, .operand = operand, .seen = get(value).hull(), .possible = true});
    if (index < 0) return;
    Finding& finding = result_.findings[static_cast<std::size_t>(index)];
    finding.verdict = Verdict::unknown;
    if (finding.reason.empty()) finding.reason = reason;
  };
  const Taint taint = taint_of(node);
  for (const ValueId out : node.outputs) {
    if (!out.valid()) continue;
    store(out, uniform(types_[out], top(element_dtype(types_[out]))));
    taints_[out.at()].unmodelled = taint.unmodelled.valid() ? taint.unmodelled : id;
  }
  for (const Hazard& hazard : node.op->hazards) {
    if (hazard.operand < node.inputs.size()) {
      undecided(hazard.rule, static_cast<int>(hazard.operand), node.inputs[hazard.operand]);
    }
  }
  const ValueId result = node.outputs.empty() ? ValueId{} : node.outputs.front();
  undecided(node.op->overflow, -1, result);
  undecided(node.op->invalid, -1, result);
}

}  // namespace finity
