// A made-up check of a small model that shows every part of a report.
#pragma once

#include "formats/text/text.h"
#include "report/collect.h"
#include "support/paths.h"
#include "support/support.h"
#include "types/infer.h"

namespace finity::sample {

inline ValueId value(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].name == name) return {static_cast<std::int32_t>(i)};
  }
  return {};
}

inline AbsTensor cell(const Range& range) {
  AbsTensor result;
  result.dtype = DType::float32;
  result.cells = {range};
  return result;
}

class Builder {
 public:
  Builder()
      : graph(parse_graph(read_text_file(testdata_folder() + "/report/net.txt"), "net.onnx")),
        types(infer_types(graph)) {
    analysis.ranges.resize(graph.values().size(), cell({.lo = 0, .hi = 1}));
    analysis.reached.resize(graph.values().size(), true);
    analysis.modelled_nodes = graph.nodes().size() - 1;
    analysis.notes.push_back({"node 'tw|ist' (custom.Twist)", "not in the op table"});
    set("x", {.lo = -50, .hi = 100});
    set("e", {.lo = 0, .hi = max_finite(DType::float32)});
    set("c", top(DType::float32));
  }

  void set(std::string_view name, const Range& range) { analysis.ranges[value(graph, name).at()] = cell(range); }

  // The finding at the node that produces `output`, looking at `looked_at`.
  Finding& find(std::string_view output, std::string_view looked_at, std::string_view rule, int operand,
                Verdict verdict) {
    const ValueId made = value(graph, output);
    analysis.findings.push_back({.node = graph.value(made).producer,
                                 .value = value(graph, looked_at),
                                 .rule = rule,
                                 .operand = operand,
                                 .verdict = verdict,
                                 .seen = analysis.ranges[value(graph, looked_at).at()].hull()});
    return analysis.findings.back();
  }

  std::vector<ValueId> path(std::initializer_list<std::string_view> names) const {
    std::vector<ValueId> ids;
    for (const std::string_view name : names) ids.push_back(value(graph, name));
    return ids;
  }

  Report report(const Selection& selection = {}) const {
    Report result;
    result.model = "models/net.onnx";
    result.options = {{"weights", "trained"}};
    result.read_seconds = 0.25;
    result.check_seconds = 0.5;
    collect(result, {graph, types, analysis, assumptions}, selection);
    return result;
  }

  Graph graph;
  Types types;
  Analysis analysis;
  std::vector<std::string> assumptions = {"x: guessed [-50, 100] (float32, nothing declared)", "mask: either"};
};

inline Builder everything() {
  Builder b;
  Finding& overflow = b.find("e", "e", "FN201", -1, Verdict::possible);
  overflow.seen.pinf = true;
  overflow.path = b.path({"x", "e"});
  Finding& sum = b.find("total", "total", "FN205", -1, Verdict::possible);
  sum.root = 0;
  sum.path = b.path({"x", "e", "total"});
  b.find("p", "total", "FN101", 1, Verdict::proved);
  b.find("l", "p", "FN102", 0, Verdict::possible).path = b.path({"x", "e", "p"});
  b.find("r", "l", "FN104", 0, Verdict::possible);
  Finding& unmodelled = b.find("q", "c", "FN102", 0, Verdict::unknown);
  unmodelled.reason = "it depends on node 'tw|ist\n1' (custom.Twist), which is not modelled";
  unmodelled.path = b.path({"c"});
  Finding& certain = b.find("a", "e", "FN102", 0, Verdict::possible);
  certain.certain = true;
  certain.seen = point(-1);
  b.find("z", "q", "FN102", 0, Verdict::confirmed);
  b.analysis.findings.push_back({.value = value(b.graph, "w"),
                                 .rule = "FN401",
                                 .verdict = Verdict::possible,
                                 .certain = true,
                                 .seen = {.lo = 1, .hi = 2, .nan = true}});
  return b;
}

inline CheckResult result() {
  CheckResult run;
  run.version = "1.2.3";
  run.reports.push_back(everything().report());
  Report& report = run.reports.front();
  report.alarms.front().accepted = Acceptance::none;
  report.verified = "verified on 10 random inputs";
  report.block_list = {.present = true,
                       .proved = true,
                       .nodes = {"exp", "sum"},
                       .note = "3 analyses, no node of the list can be left out"};
  run.reports.push_back({.model = "bad|file, 100%.onnx", .error = "bad|file, 100%.onnx: not a model\nat all"});
  run.warnings = {"base.json: no longer found: FN101 at 'Div_3' of net.onnx"};
  run.config = "finity.toml";
  return run;
}

}  // namespace finity::sample
