#include "cli/model_runs.h"

#include <algorithm>

#include "check/recorded.h"
#include "cli/pool.h"
#include "exec/torch_worker.h"
#include "report/collect.h"
#include "report/words.h"

namespace finity {

namespace {

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

std::string stops_text(const VerifyReport& verified) {
  std::string text;
  if (verified.failed > 0) {
    text +=
        "; " + counted(static_cast<std::size_t>(verified.failed), "run") + " stopped early: " + verified.first_failure;
  }
  if (verified.time_up) {
    text += "; the time limit left out " + counted(static_cast<std::size_t>(verified.wanted - verified.runs), "run");
  }
  if (!verified.unsupported.empty()) {
    text += "; not run: " + verified.unsupported.front().where + ": " + verified.unsupported.front().text;
  }
  return text;
}

// A run that stopped early shows nothing of what would have followed.
void tell_verified(Report& report, const VerifyReport& verified) {
  const int ended = verified.runs - verified.failed;
  if (ended > 0 && verified.tensors > 0) {
    report.verified = "verified: " + counted(static_cast<std::size_t>(ended), "run") + ", " +
                      counted(verified.tensors, "tensor") + " in " + ranges_of(verified.tensors) + stops_text(verified);
    return;
  }
  const std::string nothing =
      verified.skipped > 0 ? "every tensor comes after a finding that came true" : "nothing could be compared";
  report.unverified = (ended > 0 ? nothing : "no run came to its end") + stops_text(verified);
}

// What the analysis, and the list of nodes to keep, left of the time limit; a moment at least, so that a limit stays
// one.
double time_left(const ModelAnalysis& model, const CheckPlan& plan) {
  const double limit = plan.check.analysis.time_limit;
  return limit > 0 ? std::max(limit - model.read_seconds - model.check_seconds - model.list_seconds, 1e-3) : 0;
}

double search_seconds(const ModelAnalysis& model, const CheckPlan& plan) {
  const double left = time_left(model, plan);
  return left == 0 ? plan.confirm : left;
}

std::vector<FailingRun> verify_model(Report& report, const ModelAnalysis& model, const CheckPlan& plan) {
  const VerifyOptions options = {
      .runs = static_cast<int>(plan.verify), .seed = plan.seed, .time_limit = time_left(model, plan)};
  VerifyReport verified = verify(model.graph, model.types, model.premises, model.analysis, options);
  tell_verified(report, verified);
  return std::move(verified.witnesses);
}

}  // namespace

std::vector<FailingRun> run_model(Report& report, const ModelAnalysis& model, const CheckPlan& plan) {
  constexpr double kConfirmSeconds = 2;
  std::vector<FailingRun> witnesses =
      confirm_certain(model.graph, model.types, model.premises, model.analysis, kConfirmSeconds);
  if (plan.verify > 0) {
    for (FailingRun& witness : verify_model(report, model, plan)) {
      const bool known = std::ranges::find(witnesses, witness.finding, &FailingRun::finding) != witnesses.end();
      if (!known) witnesses.push_back(std::move(witness));
    }
  }
  if (!plan.values.empty()) {
    report.verified += (report.verified.empty() ? "" : "; ") + compare_values(model, plan.values);
  }
  return witnesses;
}

namespace {

// A node by name or by what it computes, or a rule by code, prefix or slug.
bool is_site(const Graph& graph, const Finding& finding, const std::string& wanted) {
  const Rule* rule = find_rule(finding.rule);
  if (rule != nullptr && speaks_of(wanted, *rule)) return true;
  if (!finding.node.valid()) return false;
  const Node& node = graph.node(finding.node);
  const auto computes = [&](ValueId id) { return id.valid() && graph.value(id).name == wanted; };
  return node.name == wanted || std::ranges::any_of(node.outputs, computes);
}

void refuse_unknown_sites(const ModelAnalysis& model, const std::vector<std::string>& sites) {
  for (const std::string& site : sites) {
    const auto matches = [&](const Finding& finding) { return is_site(model.graph, finding, site); };
    if (std::ranges::none_of(model.analysis.findings, matches)) {
      throw Error("--site " + site + ": no hazard site of the model is at a node, tensor or rule of that name");
    }
  }
}

}  // namespace

std::unique_ptr<Worker> torch_engine(double seconds) {
  std::optional<WorkerOptions> options = torch_worker();
  if (!options) return nullptr;
  options->seconds = seconds;
  options->cpu_seconds = static_cast<unsigned>(seconds) + 1;
  return std::make_unique<Worker>(*options);
}

SearchResult search_model(const ModelAnalysis& model, const CheckPlan& plan, std::vector<FailingRun>& witnesses) {
  refuse_unknown_sites(model, plan.sites);
  SearchOptions options = {.seconds = search_seconds(model, plan), .seed = plan.seed};
  options.stop = interrupt_wanted;
  options.wanted = [&](const Finding& finding) {
    const auto index = static_cast<std::size_t>(&finding - model.analysis.findings.data());
    if (std::ranges::find(witnesses, index, &FailingRun::finding) != witnesses.end()) return false;
    const Rule* rule = find_rule(finding.rule);
    if (rule == nullptr || !is_selected(plan.selection, *rule)) return false;
    const auto here = [&](const std::string& site) { return is_site(model.graph, finding, site); };
    return plan.sites.empty() || std::ranges::any_of(plan.sites, here);
  };
  const std::unique_ptr<Worker> torch = plan.engine == "reference" ? nullptr : torch_engine(options.seconds);
  const std::unique_ptr<Worker> torch_runs = torch != nullptr ? torch_engine(options.seconds) : nullptr;
  options.torch = torch.get();
  options.torch_runs = torch_runs.get();
  SearchResult result = search_failures(model, options);
  for (const FailingRun& witness : result.witnesses) {
    const bool known = std::ranges::find(witnesses, witness.finding, &FailingRun::finding) != witnesses.end();
    if (!known) witnesses.push_back(witness);
  }
  return result;
}

}  // namespace finity
