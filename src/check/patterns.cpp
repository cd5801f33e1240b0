#include "check/patterns.h"

#include <algorithm>

#include "graph/users.h"
#include "ops/table/expression.h"
#include "ops/table/op.h"
#include "ops/table/rule_patterns.h"

namespace finity {

namespace {

constexpr std::size_t kFar = 8;  // values that hold the same numbers

bool hands_on(const Node& node) {
  if (node.op == nullptr) return false;
  const ElementSource source = node.op->traits.elements;
  return source == ElementSource::moved || source == ElementSource::converted;
}

class PatternSearch {
 public:
  PatternSearch(const Graph& graph, const Analysis& analysis)
      : graph_(graph), analysis_(analysis), users_(users_of(graph)) {}

  // What computes the expression from `x`, directly or from its elements in another place or format.
  std::vector<ValueId> results(const Expression& wanted, ValueId x) const {
    if (!wanted.is_part) return {x};
    const auto inner = std::ranges::find_if(wanted.inputs, [](const Expression& input) { return !input.number; });
    if (inner == wanted.inputs.end()) return {};
    const auto at = static_cast<std::size_t>(inner - wanted.inputs.begin());
    std::vector<ValueId> found;
    for (const ValueId start : results(*inner, x)) {
      for (const ValueId id : same_numbers(start)) {
        for (const NodeId user : users_[id.at()]) {
          if (user.valid() && computes(graph_.node(user), wanted, at, id)) {
            found.push_back(graph_.node(user).outputs.front());
          }
        }
      }
    }
    return found;
  }

 private:
  std::vector<ValueId> same_numbers(ValueId start) const {
    std::vector<ValueId> found = {start};
    for (std::size_t at = 0; at < found.size() && found.size() < kFar; ++at) {
      for (const NodeId user : users_[found[at].at()]) {
        if (!user.valid() || !hands_on(graph_.node(user))) continue;
        const ValueId result = graph_.node(user).outputs.front();
        if (result.valid()) found.push_back(result);
      }
    }
    return found;
  }

  bool computes(const Node& node, const Expression& wanted, std::size_t at, ValueId operand) const {
    if (node.op_type != wanted.name || node.inputs.size() != wanted.inputs.size()) return false;
    if (node.inputs[at] != operand || node.outputs.empty() || !node.outputs.front().valid()) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (i != at && !(node.inputs[i].valid() && is_always(node.inputs[i], wanted.inputs[i].number))) return false;
    }
    return true;
  }

  bool is_always(ValueId id, const std::optional<double>& number) const {
    const Range hull = analysis_.ranges[id.at()].hull();
    return number && hull.has_finite() && hull.lo == *number && hull.hi == *number && !hull.nan && !hull.pinf &&
           !hull.ninf;
  }

  const Graph& graph_;
  const Analysis& analysis_;
  const Users users_;
};

}  // namespace

void name_patterns(const Graph& graph, Analysis& analysis) {
  std::optional<PatternSearch> search;
  for (const RulePattern& pattern : rule_patterns()) {
    const Expression use = parse_expression(pattern.use);
    for (Finding& finding : analysis.findings) {
      if (finding.rule != pattern.instead_of || !finding.value.valid()) continue;
      if (!search) search.emplace(graph, analysis);
      if (!search->results(use, finding.value).empty()) finding.rule = pattern.rule;
    }
  }
}

}  // namespace finity
