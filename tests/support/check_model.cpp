#include "support/check_model.h"

namespace finity {

CheckedModel check(const CheckCase& test) {
  return check_graph(test.graph, test.contract,
                     {.analysis = {.ranges = test.settings}, .training = test.training, .target = test.target});
}

std::string describe_finding(const Graph& graph, const Finding& finding) {
  std::string text = "  " + std::string(name(finding.verdict)) + " ";
  if (finding.node.valid()) text += graph.value(graph.node(finding.node).outputs.front()).name;
  else if (finding.value.valid()) text += graph.value(finding.value).name;
  text += " " + std::string(finding.rule) + " seen " + to_string(finding.seen);
  return text + (finding.reason.empty() ? "" : " (" + finding.reason + ")") + "\n";
}

}  // namespace finity
