// ONNX Runtime has kernels of float16 for some ops and computes the others in float32, without rounding what goes from
// one of these to the next. So one node may see a value rounded and another the same value with more digits, and what
// is known of two values together (which is larger, that they are equal, forms in the same symbols) holds up to the
// rounding of either. Ranges of single values allow for both: see wider.cpp.
#include <algorithm>

#include "check/analyzer.h"
#include "ops/shared/relation_rules.h"

namespace finity {

namespace {

// What takes strings as well does not compute: its kernels are the same for all formats.
bool moves_data(const OpDef& op) {
  const std::vector<Param>& operands = signature_of(op).inputs;
  const bool strings = !operands.empty() && operands.front().type.dtypes[static_cast<std::size_t>(DType::string)];
  return op.traits.merge == Merge::movement || (op.traits.exact && !op.traits.elementwise && strings);
}

// Results are operands, or numbers of the format that the file gives.
bool selects(const OpDef& op) {
  return op.traits.merge == Merge::movement || (op.traits.exact && !op.traits.elementwise) ||
         op.traits.order == OrderKind::largest || op.traits.order == OrderKind::smallest ||
         op.traits.order == OrderKind::floored;
}

}  // namespace

bool Analyzer::may_be_unrounded(ValueId id) const { return id.valid() && unrounded_[id.at()]; }

bool Analyzer::reads_unrounded(const Node& node) const {
  return std::ranges::any_of(node.inputs, [&](ValueId input) { return may_be_unrounded(input); });
}

// It has a kernel that rounds what others see with more digits. Of other runtimes it is not known which nodes have one.
bool Analyzer::may_round(const Node& node) const {
  const bool own =
      options_.ranges.runtime == Runtime::any || node.op->analysis.grants.narrow_kernels || moves_data(*node.op);
  return own && reads_unrounded(node);
}

void Analyzer::mark_unrounded(const Node& node, ValueId out) {
  unrounded_[out.at()] = options_.ranges.runtime != Runtime::exact && is_narrow(types_[out].dtype) &&
                         (reads_unrounded(node) || !selects(*node.op));
}

// Where any node may round, operands are compared up to that.
std::vector<AbsTensor> Analyzer::loosen_operands(const Node& node, Operands& operands) {
  std::vector<AbsTensor> loose;
  if (options_.ranges.runtime != Runtime::any || !reads_unrounded(node)) return loose;
  loose.reserve(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!may_be_unrounded(node.inputs[i])) continue;
    loose.push_back(*operands[i].range);
    loose.back().forms = forms_of(loose.back());
    loosen(loose.back());
    operands[i].range = &loose.back();
  }
  return loose;
}

void Analyzer::loosen(AbsTensor& x) {
  for (std::size_t i = 0; i < x.forms.size() && i < x.cells.size(); ++i)
    x.forms[i] = rounded(x.forms[i], x.dtype, symbols_, x.cells[i]);
  for (Relation& relation : x.relations) relation = loosened(relation, x.dtype);
}

}  // namespace finity
