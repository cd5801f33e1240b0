#include "cli/check_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "check/keep_search.h"
#include "check/recorded.h"
#include "check/verify.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "formats/model_format.h"
#include "report/collect.h"

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Nodes as converters want them: by name.
std::vector<std::string> names_of(const Graph& graph, const NodeSet& nodes) {
  std::vector<std::string> names;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    const bool unnamed = node.name.empty() && !node.outputs.empty() && node.outputs.front().valid();
    names.push_back(unnamed ? graph.value(node.outputs.front()).name : node.name);
  }
  return names;
}

BlockList block_list_of(const ModelAnalysis& model, const CheckPlan& plan) {
  const KeepOptions options = {.check = plan.check.analysis,
                               .time_limit = plan.check.analysis.time_limit > 0 ? plan.check.analysis.time_limit : 10};
  const KeepResult found = find_kept_nodes(model.original, model.original_types, plan.check.bindings, plan.contract,
                                           plan.check.target, options);
  BlockList list = {
      .present = true, .proved = found.proved, .excused = found.excused, .nodes = names_of(model.original, found.keep)};
  list.note = found.proved ? std::to_string(found.runs) + " analyses" : found.why;
  if (!found.proved) return list;
  list.note += found.minimal ? ", no node of the list can be left out" : "; no time to see which can be left out";
  constexpr std::size_t kMany = 20;
  if (found.keep.size() > kMany && 2 * found.keep.size() > found.candidates) {
    list.note += "; only " + std::to_string(found.candidates) + " nodes compute floats: little is left to convert";
  }
  return list;
}

std::string verified_text(const VerifyReport& verified) {
  std::string text = "verified: " + std::to_string(verified.runs) + " runs, " + std::to_string(verified.tensors) +
                     " tensors lie in their ranges";
  if (verified.time_up) text += "; then the time limit was reached";
  if (verified.failed > 0) {
    text += "; " + std::to_string(verified.failed) + " runs stopped: " + verified.first_failure;
  }
  if (!verified.unsupported.empty()) {
    text += "; not run: " + verified.unsupported.front().where + ": " + verified.unsupported.front().text;
  }
  return text;
}

std::string counted(std::size_t count, const std::string& one) {
  return with_thousands(static_cast<std::int64_t>(count)) + " " + one + (count == 1 ? "" : "s");
}

std::string ranges_of(std::size_t tensors) { return tensors == 1 ? "its range" : "their ranges"; }

std::string recorded_text(const RecordedReport& recorded) {
  std::string text = "values: " + counted(static_cast<std::size_t>(recorded.runs), "run") + ", " +
                     counted(recorded.tensors, "tensor") + " (" + counted(recorded.elements, "element") + ") in " +
                     ranges_of(recorded.tensors);
  if (recorded.skipped > 0) text += "; " + counted(recorded.skipped, "tensor") + " left out after a possible failure";
  if (!recorded.unmatched.empty()) {
    text += "; " + counted(recorded.unmatched.size(), "name") + " not in the model (" + recorded.unmatched.front() +
            (recorded.unmatched.size() > 1 ? ", ...)" : ")");
  }
  if (!recorded.unrecorded.empty()) {
    text += "; taken to be inside the assumptions, not recorded: " + recorded.unrecorded.front() +
            (recorded.unrecorded.size() > 1 ? ", ..." : "");
  }
  return text;
}

std::string escapes_text(const RecordedReport& recorded) {
  const std::size_t count = recorded.outside.size() + recorded.following;
  std::string text = counted(count, "recorded tensor") + " outside " + ranges_of(count);
  for (const std::string& escape : recorded.outside) text += "; " + escape;
  if (recorded.following > 0) text += "; and " + std::to_string(recorded.following) + " computed from these";
  return text;
}

std::string compare_values(const ModelAnalysis& model, const std::vector<std::string>& paths) {
  RecordedReport recorded;
  for (const std::string& path : paths) {
    for (const RecordedValues& run : read_recorded(path, model.graph)) {
      compare_recorded(model.graph, model.premises, model.analysis, run, recorded);
      if (!recorded.outside.empty()) throw Error("verification failed: " + run.where + ": " + escapes_text(recorded));
    }
  }
  return recorded_text(recorded);
}

// What the analysis left of the time limit; a moment at least, so that a limit stays one.
double time_left(const ModelAnalysis& model, const CheckPlan& plan) {
  const double limit = plan.check.analysis.time_limit;
  return limit > 0 ? std::max(limit - model.read_seconds - model.check_seconds, 1e-3) : 0;
}

std::string verify_model(const ModelAnalysis& model, const CheckPlan& plan) {
  const VerifyOptions options = {
      .runs = static_cast<int>(plan.verify), .seed = plan.seed, .time_limit = time_left(model, plan)};
  return verified_text(verify(model.graph, model.types, model.premises, model.analysis, options));
}

void fill_report(Report& report, const std::string& path, const CheckPlan& plan) {
  const ModelAnalysis model = analyze_model(path, plan);
  report.options = plan.shown;
  report.read_seconds = model.read_seconds;
  report.check_seconds = model.check_seconds;
  report.notes = model.notes;
  const bool converted = plan.check.target != DType::undefined;
  collect(report, {model.graph, model.types, model.analysis, model.premises.assumptions, converted}, plan.selection);
  if (plan.check.target != DType::undefined && !report.alarms.empty()) report.block_list = block_list_of(model, plan);
  const auto add = [&](std::string text) {
    report.verified += report.verified.empty() ? std::move(text) : "; " + std::move(text);
  };
  try {
    if (plan.verify > 0) add(verify_model(model, plan));
    if (!plan.values.empty()) add(compare_values(model, plan.values));
  } catch (Error& error) {
    error.in(path);
    throw;
  }
}

}  // namespace

CheckPlan plan_of(const CheckSettings& settings) {
  CheckPlan plan;
  plan.contract = contract_of(settings);
  plan.check.bindings = bindings_of(settings);
  plan.check.analysis = check_options_of(settings);
  plan.check.target = target_of(settings);
  plan.selection = settings.selection;
  plan.verify = std::min<std::size_t>(settings.verify.value_or(0), 1'000'000);
  plan.seed = settings.seed.value_or(0);
  if (plan.verify > 0 && settings.accumulate == "same") {
    throw Error("--verify: the reference adds in float32, which is not what --accumulate same speaks of");
  }
  plan.values = settings.values;
  const auto show = [&](const char* name, const std::optional<std::string>& value) {
    if (value) plan.shown.emplace_back(name, *value);
  };
  for (const std::string& range : settings.config_ranges) plan.shown.emplace_back("range", range);
  for (const std::string& range : settings.ranges) plan.shown.emplace_back("range", range);
  for (const std::string& shape : settings.shapes) plan.shown.emplace_back("shape", shape);
  show("weights", settings.weights);
  show("contract", settings.contract);
  show("as", settings.as);
  show("accumulate", settings.accumulate);
  show("tensor", settings.tensor);
  show("numeric", settings.numeric);
  if (settings.flush_subnormals) plan.shown.emplace_back("flush-subnormals", "yes");
  return plan;
}

ModelAnalysis analyze_model(const std::string& path, const CheckPlan& plan) {
  const Clock::time_point start = Clock::now();
  std::vector<Note> notes;
  Graph graph = read_model(path, notes);
  const double read_seconds = seconds_since(start);
  try {
    ModelAnalysis model = {check_graph(std::move(graph), plan.contract, plan.check)};
    model.notes.insert(model.notes.begin(), notes.begin(), notes.end());
    model.read_seconds = read_seconds;
    model.check_seconds = seconds_since(start) - read_seconds;
    return model;
  } catch (Error& error) {
    error.in(path);
    throw;
  }
}

Report check_model(const std::string& path, const CheckPlan& plan) {
  Report report;
  report.model = path;
  try {
    fill_report(report, path, plan);
    return report;
  } catch (const Error& error) {
    report.error = error.what();
  } catch (...) {
    report.error = path + ": " + failure_text();
  }
  return {.model = path, .error = report.error};
}

}  // namespace finity
