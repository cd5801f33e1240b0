#include "check/check_graph.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "check/constants.h"
#include "check/convert.h"
#include "check/joint.h"
#include "gradient/expand.h"

namespace finity {

namespace {

template <class Item>
void append(std::vector<Item>& to, std::vector<Item> from) {
  std::ranges::move(from, std::back_inserter(to));
}

void bind(CheckedGraph& model, const Bindings& bindings) {
  std::vector<std::pair<std::string, std::string>> unmatched;
  model.bindings = matching_bindings(model.graph, bindings, unmatched);
  for (auto& [name, text] : unmatched) model.unmatched.push_back({"--shape " + name, name, std::move(text)});
}

void refuse_unmatched(const std::vector<Unmatched>& unmatched) {
  if (!unmatched.empty()) throw Error(unmatched.front().declaration + ": " + unmatched.front().text);
}

// The findings speak of the file's nodes and values because a conversion keeps their ids.
NodeSet convert(CheckedGraph& model, DType target) {
  Conversion conversion = convert_floats(model.graph, model.types, target);
  Types types = infer_types(conversion.graph, model.bindings);
  append(model.notes, std::move(conversion.notes));
  model.original = std::exchange(model.graph, std::move(conversion.graph));
  model.original_types = std::exchange(model.types, std::move(types));
  return std::move(conversion.kept);
}

// What a constant of the file brings about belongs to the finding about the constant.
void explain_by_constants(std::vector<Finding>& findings, std::size_t first_about_constants) {
  std::unordered_map<ValueId, int> about;
  for (std::size_t i = first_about_constants; i < findings.size(); ++i) {
    if (findings[i].verdict != Verdict::proved) about.try_emplace(findings[i].value, static_cast<int>(i));
  }
  if (about.empty()) return;
  for (std::size_t i = 0; i < first_about_constants; ++i) {
    Finding& finding = findings[i];
    if (finding.verdict == Verdict::proved || finding.root >= 0) continue;
    for (const ValueId id : finding.path) {
      if (const auto found = about.find(id); found != about.end()) finding.root = found->second;
    }
  }
}

}  // namespace

CheckedGraph check_graph(Graph graph, const Contract& contract, const GraphCheckOptions& options) {
  CheckedGraph model;
  model.graph = with_gradients_written_out(std::move(graph));
  bind(model, options.bindings);
  if (options.all_names_match) refuse_unmatched(model.unmatched);
  model.types = infer_types(model.graph, model.bindings);
  const DType exact = has(options.compat, Compat::real_arithmetic) ? DType::float64 : DType::undefined;
  const DType target = options.target == DType::undefined ? exact : options.target;
  const bool converted = target != DType::undefined;
  const NodeSet kept = converted ? convert(model, target) : NodeSet();
  append(model.notes, model.types.notes);
  std::vector<GradientStop> stops;
  if (options.training) {
    JointGraph joint = with_backward_pass(model.graph, model.types, *options.training);
    model.graph = std::move(joint.graph);
    model.types = std::move(joint.types);
    model.trained = std::move(joint.words);
    stops = std::move(joint.stops);
  }
  model.premises = premises(model.graph, model.types, contract, options.analysis.ranges.max_cells);
  assume(options.compat, model.graph, model.types, model.premises);
  append(model.notes, model.premises.notes);
  append(model.unmatched, model.premises.unmatched);
  if (options.all_names_match) refuse_unmatched(model.unmatched);
  model.analysis = analyze(model.graph, model.types, model.premises, options.analysis);
  const ConstantChecks checks = {.target = target, .kept = &kept, .analysis = &model.analysis};
  const std::size_t computed = model.analysis.findings.size();
  append(model.analysis.findings, constant_findings(converted ? model.original : model.graph, checks));
  explain_by_constants(model.analysis.findings, computed);
  append(model.analysis.findings, input_findings(model.premises));
  for (const GradientStop& stop : stops) {
    const Node& node = model.graph.node(stop.node);
    model.analysis.findings.push_back({.node = stop.node,
                                       .value = node.outputs.empty() ? ValueId{} : node.outputs.front(),
                                       .rule = "FN905",
                                       .verdict = Verdict::unknown,
                                       .reason = stop.reason});
  }
  if (!options.compat.empty()) forgive(options.compat, model.graph, model.analysis);
  return model;
}

}  // namespace finity
