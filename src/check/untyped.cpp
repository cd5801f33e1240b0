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
  if (node.op->traits.shape_only) return {};
  const Signature& signature = signature_of(*node.op);
  const ValueId operand = first_untyped(signature.inputs, node.inputs, types_);
  return operand.valid() ? operand : first_untyped(signature.outputs, node.outputs, types_);
}

void Analyzer::pass_untyped(NodeId id, const Node& node, ValueId untyped) {
  const Taint taint = taint_of(node);
  for (const ValueId out : node.outputs) {
    if (!out.valid()) continue;
    store(out, uniform(types_[out], top(element_dtype(types_[out]))));
    taints_[out.at()].unmodelled = taint.unmodelled.valid() ? taint.unmodelled : id;
  }
  leave_undecided(id, "the element type of '" + graph_.value(untyped).name + "' is not known", true);
}

void Analyzer::leave_undecided(NodeId id, const std::string& reason, bool again) {
  const Node& node = graph_.node(id);
  if (node.op == nullptr || probing_ > 0) return;
  const auto undecided = [&](std::string_view rule, int operand, ValueId value) {
    if (rule.empty() || !value.valid()) return;
    const std::size_t before = result_.findings.size();
    const int index = finding_of(id, value, {.rule = rule, .operand = operand});
    Finding& finding = result_.findings[static_cast<std::size_t>(index)];
    const bool is_new = result_.findings.size() > before;
    if (!is_new && (!again || finding.verdict == Verdict::possible)) return;
    if (result_.reached[value.at()]) finding.seen = join(finding.seen, get(value).hull());
    finding.certain = false;
    finding.verdict = Verdict::unknown;
    const NodeId cause = operand >= 0 ? taints_[value.at()].unmodelled : taint_of(node).unmodelled;
    if (cause.valid() && ignorance_at(cause) != index) finding.root = ignorance_at(cause);
    if (finding.root < 0) finding.root = ignorance_at(id);
    if (finding.reason.empty()) finding.reason = reason;
  };
  for (const Hazard& hazard : node.op->analysis.hazards) {
    if (hazard.quantity != nullptr) continue;  // the range rule's own: not every node of the op has it
    const auto operand = hazard.operand;
    if (operand >= node.inputs.size() || !node.inputs[operand].valid()) continue;
    const DType dtype = element_dtype(types_[node.inputs[operand]]);
    if (hazard.unsafe(dtype == DType::undefined ? DType::float32 : dtype).empty()) continue;
    undecided(hazard.rule, static_cast<int>(operand), node.inputs[operand]);
  }
  const ValueId result = node.outputs.empty() ? ValueId{} : node.outputs.front();
  const DType dtype = result.valid() ? element_dtype(types_[result]) : DType::undefined;
  if (dtype != DType::undefined && !is_float(dtype)) return;
  undecided(node.op->analysis.overflow, -1, result);
  undecided(node.op->analysis.invalid, -1, result);
}

}  // namespace finity
