#include "bench/static_check.h"

#include <algorithm>
#include <chrono>

#include "formats/text/text.h"
#include "ops/table/rule_patterns.h"
#include "report/words.h"

namespace finity {

namespace {

std::string node_name(const Graph& graph, const Node& node) {
  return node.name.empty() ? graph.value(node.outputs.front()).name : node.name;
}

// The finding speaks of one of these nodes, or, where the bug is a derivative, of a node that computes it.
bool is_at(const Graph& graph, const Finding& finding, const std::vector<std::string>& names, bool derivative) {
  if (!finding.node.valid()) return false;
  const Node* node = &graph.node(finding.node);
  if (derivative && node->gradient_of.valid()) node = &graph.node(node->gradient_of);
  return std::ranges::find(names, node_name(graph, *node)) != names.end();
}

bool is_open(const Finding& finding) { return finding.verdict != Verdict::proved; }

std::string text_of(const CheckedGraph& checked, const Finding& finding) {
  const std::string where = finding.node.valid() ? node_name(checked.graph, checked.graph.node(finding.node)) : "";
  return std::string(name(finding.verdict)) + " " + std::string(finding.rule) + " at '" + where + "'";
}

// Why the twin's operations are not proved; "" when they are.
std::string unproved(const CheckedGraph& checked, const GristBug& bug) {
  for (const std::string& repaired : bug.repaired) {
    const auto made = [&](const Node& node) { return node_name(checked.graph, node) == repaired; };
    if (std::ranges::none_of(checked.graph.nodes(), made)) return "the twin has no node '" + repaired + "'";
  }
  for (const Finding& finding : checked.analysis.findings) {
    const bool here = is_at(checked.graph, finding, bug.repaired, bug.derivative);
    if (here && is_open(finding)) return "in the twin: " + text_of(checked, finding);
  }
  return checked.analysis.complete ? "" : "the check of the twin is not complete";
}

}  // namespace

CheckedGraph check_recipe(const Recipe& recipe, const GristBug& bug) {
  GraphCheckOptions options;
  options.analysis.ranges.flush_subnormals = recipe.flush_subnormals;
  // Training libraries keep a sigmoid within [0, 1]; not every kernel of ONNX Runtime does.
  options.analysis.ranges.runtime = Runtime::exact;
  options.analysis.find_causes = false;
  if (bug.derivative) options.training = Training{.loss = "loss"};
  return check_graph(parse_graph(recipe.model, "program " + bug.id), contract_of(recipe), options);
}

StaticVerdict check_bug(const GristBug& bug) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  StaticVerdict verdict;
  const CheckedGraph buggy = check_recipe(bug.make({}), bug);
  for (const Finding& finding : buggy.analysis.findings) {
    if (!is_open(finding)) continue;
    if (is_at(buggy.graph, finding, bug.nodes, bug.derivative)) {
      verdict.found = verdict.found || raised_rule(finding.rule) == bug.rule;
      continue;
    }
    if (finding.root >= 0 || !finding.node.valid()) continue;
    const Node& node = buggy.graph.node(finding.node);
    verdict.others.push_back({.node = node_name(buggy.graph, node),
                              .op = std::string(node.op_type),
                              .rule = std::string(finding.rule),
                              .seen = to_string(finding.seen)});
  }
  if (!verdict.found) verdict.problem = "no " + bug.rule + " at '" + bug.nodes.front() + "'";
  const CheckedGraph twin = check_recipe(bug.make({.repaired = true}), bug);
  const std::string why = unproved(twin, bug);
  verdict.repair_proved = why.empty();
  if (!why.empty()) verdict.problem += (verdict.problem.empty() ? "" : "; ") + why;
  verdict.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return verdict;
}

}  // namespace finity
