#include "cli/check_model.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/thread_clock.h"
#include "check/keep_search.h"
#include "cli/data_runs.h"
#include "cli/failure.h"
#include "cli/model_runs.h"
#include "cli/witness.h"
#include "exec/torch_worker.h"
#include "formats/model_format.h"
#include "formats/onnx/onnx.h"
#include "report/claims.h"
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

// What the search for nodes to keep in their own format may take: nobody waits much longer for the list than for the
// check itself. When runs are to come as well, they get half of a time limit at least.
double keep_list_seconds(const ModelAnalysis& model, const CheckPlan& plan) {
  constexpr double kMoment = 1e-3, kChecks = 10, kLeast = 0.5, kMost = 30;
  // In seconds of computing, as the search counts them: on a busy machine those of the clock would be many more.
  const double usual = std::clamp(kChecks * model.check_effort, kLeast, kMost);
  const double limit = plan.check.analysis.time_limit;
  if (limit == 0) return usual;
  const double left = std::max(limit - model.read_seconds - model.check_seconds, kMoment);
  const bool runs = plan.confirm > 0 || plan.verify > 0 || !plan.data.empty();
  return runs ? std::min(usual, left / 2) : left;
}

// Before anything is run: how long a run takes is not known beforehand, and the list needs none.
KeepResult kept_nodes(ModelAnalysis& model, const CheckPlan& plan) {
  const Clock::time_point start = Clock::now();
  const KeepOptions options = {.check = plan.check.analysis, .time_limit = keep_list_seconds(model, plan)};
  KeepResult found =
      find_kept_nodes(model.original, model.original_types, model.bindings, plan.contract, plan.check.target, options);
  model.list_seconds = seconds_since(start);
  return found;
}

BlockList block_list_of(const ModelAnalysis& model, const KeepResult& found, const DataRuns& runs) {
  BlockList list = {
      .present = true, .proved = found.proved, .excused = found.excused, .nodes = names_of(model.original, found.keep)};
  list.note = found.proved ? std::to_string(found.runs) + " analyses" : found.why;
  if (!found.proved) return list;
  runs.tell(found.keep, list);
  list.note += found.minimal ? ", no node of the list can be left out"
                             : "; more than is needed, perhaps: no time to see which can be left out";
  constexpr std::size_t kMany = 20;
  if (found.keep.size() > kMany && 2 * found.keep.size() > found.candidates) {
    list.note += "; only " + std::to_string(found.candidates) + " nodes compute floats: little is left to convert";
  }
  return list;
}

void fill_report(Report& report, const std::string& path, const CheckPlan& plan) {
  ModelAnalysis model = analyze_model(path, plan);
  report.options = plan.shown;
  report.read_seconds = model.read_seconds;
  report.check_seconds = model.check_seconds;
  report.notes = model.notes;
  add_claims(report, model, plan.contract, plan.check);
  // With the backward pass the search for nodes to keep would prove less than was asked.
  std::optional<KeepResult> kept;
  const bool listed = plan.check.target != DType::undefined && !plan.check.training;
  const auto is_open = [](const Finding& finding) { return finding.verdict != Verdict::proved; };
  if (listed && std::ranges::any_of(model.analysis.findings, is_open)) kept = kept_nodes(model, plan);
  DataRuns runs(model, plan);
  try {
    std::vector<FailingRun> witnesses = run_model(report, model, plan);
    for (FailingRun& witness : runs.run()) {
      const bool known = std::ranges::find(witnesses, witness.finding, &FailingRun::finding) != witnesses.end();
      if (!known) witnesses.push_back(std::move(witness));
    }
    SearchResult searched;
    if (plan.confirm > 0) searched = search_model(model, plan, witnesses);
    for (const FailingRun& witness : witnesses) model.analysis.findings[witness.finding].verdict = Verdict::confirmed;
    const bool converted = plan.check.target != DType::undefined;
    collect(report, {model.graph, model.types, model.analysis, model.premises.assumptions, converted}, plan.selection);
    if (!plan.check.compat.empty()) {
      // Numbers to compare, no proof: what was taken for granted does not hold.
      report.complete = false;
      report.not_checked.why.emplace_back("--compat is not sound");
    }
    add_failures(report, model.graph, witnesses);
    add_searches(report, searched);
    runs.tell(report);
    if (!plan.witness_folder.empty()) write_witnesses(report, model.graph, witnesses, plan.witness_folder);
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  if (!listed || report.alarms.empty()) return;
  if (!kept) kept = kept_nodes(model, plan);
  report.block_list = block_list_of(model, *kept, runs);
  report.block_list.searched = plan.confirm > 0 || !plan.data.empty();
  std::vector<std::string>& failing = report.block_list.failing;
  for (const Alarm& alarm : report.alarms) {
    const bool again = std::ranges::find(failing, alarm.place.name()) != failing.end();
    if (alarm.verdict == Verdict::confirmed && !again) failing.push_back(alarm.place.name());
  }
}

}  // namespace

CheckPlan plan_of(const CheckSettings& settings) {
  CheckPlan plan;
  plan.contract = contract_of(settings);
  plan.check.bindings = bindings_of(settings);
  plan.check.analysis = check_options_of(settings);
  plan.check.target = target_of(settings);
  plan.check.compat = compat_from_text(settings.compat.value_or(""));
  if (settings.loss && !settings.train) throw Error("--loss needs --train");
  if (!settings.by.empty() && !settings.train) throw Error("--by needs --train");
  if (settings.train) plan.check.training = Training{settings.loss.value_or(""), settings.by};
  plan.confirm = settings.confirm.value_or(0);
  plan.sites = settings.sites;
  plan.engine = settings.engine.value_or("auto");
  if (plan.engine == "torch" && !torch_worker()) throw Error("--engine torch: " + std::string(kNoTorchWorker));
  if (plan.confirm > 0 && plan.engine == "auto" && !torch_worker()) {
    std::fprintf(stderr, "finity: note: %s%s\n", std::string(kNoTorchWorker).c_str(),
                 std::string(kInsteadOfTorch).c_str());
  }
  plan.selection = settings.selection;
  plan.verify = std::min<std::size_t>(settings.verify.value_or(0), 1'000'000);
  plan.seed = settings.seed.value_or(0);
  if (plan.verify > 0 && settings.accumulate == "same") {
    throw Error("--verify: the reference adds in float32, which is not what --accumulate same speaks of");
  }
  plan.values = settings.values;
  plan.data = settings.data;
  plan.witness_folder = settings.witness.value_or("");
  const auto show = [&](const char* name, const std::optional<std::string>& value) {
    if (value) plan.shown.emplace_back(name, *value);
  };
  for (const std::string& range : settings.config_ranges) plan.shown.emplace_back("range", range);
  for (const std::string& range : settings.ranges) plan.shown.emplace_back("range", range);
  for (const std::string& shape : settings.shapes) plan.shown.emplace_back("shape", shape);
  show("weights", settings.weights);
  show("contract", settings.contract);
  show("as", settings.as);
  plan.shown.emplace_back("runtime", settings.runtime.value_or("measured"));
  show("accumulate", settings.accumulate);
  show("tensor", settings.tensor);
  show("numeric", settings.numeric);
  show("compat", settings.compat);
  if (settings.train) plan.shown.emplace_back("train", settings.loss.value_or("yes"));
  if (settings.flush_subnormals) plan.shown.emplace_back("flush-subnormals", "yes");
  return plan;
}

ModelAnalysis analyze_model(const std::string& path, const CheckPlan& plan) {
  const Clock::time_point start = Clock::now();
  std::vector<Note> notes;
  Graph graph = read_model(path, notes, plan.check.bindings);
  std::erase_if(notes, [](const Note& note) { return note.text.starts_with(kNotKept); });
  const double read_seconds = seconds_since(start);
  const double effort = thread_seconds();
  try {
    ModelAnalysis model = {check_graph(std::move(graph), plan.contract, plan.check)};
    model.notes.insert(model.notes.begin(), notes.begin(), notes.end());
    model.read_seconds = read_seconds;
    model.check_seconds = seconds_since(start) - read_seconds;
    model.check_effort = thread_seconds() - effort;
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
