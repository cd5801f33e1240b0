#include "support/check_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "check/constants.h"
#include "check/convert.h"

namespace finity {

CheckedModel check(const CheckCase& test) {
  CheckedModel result;
  result.graph = test.graph;
  NodeSet kept;
  if (test.target != DType::undefined) {
    Conversion conversion = convert_floats(test.graph, infer_types(test.graph), test.target);
    result.graph = std::move(conversion.graph);
    kept = std::move(conversion.kept);
  }
  result.types = infer_types(result.graph);
  result.premises = premises(result.graph, result.types, test.contract, test.settings.max_cells);
  result.analysis = analyze(result.graph, result.types, result.premises, {.ranges = test.settings});
  const ConstantChecks checks = {.target = test.target, .kept = &kept, .analysis = &result.analysis};
  std::ranges::move(constant_findings(test.graph, checks), std::back_inserter(result.analysis.findings));
  std::ranges::move(input_findings(result.premises), std::back_inserter(result.analysis.findings));
  return result;
}

std::string describe_finding(const Graph& graph, const Finding& finding) {
  std::string text = "  " + std::string(name(finding.verdict)) + " ";
  if (finding.node.valid()) text += graph.value(graph.node(finding.node).outputs.front()).name;
  else if (finding.value.valid()) text += graph.value(finding.value).name;
  text += " " + std::string(finding.rule) + " seen " + to_string(finding.seen);
  return text + (finding.reason.empty() ? "" : " (" + finding.reason + ")") + "\n";
}

}  // namespace finity
