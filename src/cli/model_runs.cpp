#include "cli/model_runs.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "check/recorded.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "report/words.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

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

// What the analysis left of the time limit; a moment at least, so that a limit stays one.
double time_left(const ModelAnalysis& model, const CheckPlan& plan) {
  const double limit = plan.check.analysis.time_limit;
  return limit > 0 ? std::max(limit - model.read_seconds - model.check_seconds, 1e-3) : 0;
}

std::vector<FailingRun> verify_model(Report& report, const ModelAnalysis& model, const CheckPlan& plan) {
  const VerifyOptions options = {
      .runs = static_cast<int>(plan.verify), .seed = plan.seed, .time_limit = time_left(model, plan)};
  VerifyReport verified = verify(model.graph, model.types, model.premises, model.analysis, options);
  tell_verified(report, verified);
  return std::move(verified.witnesses);
}

// A name for a folder: letters, digits and what is harmless.
std::string folder_name(const std::string& model, const Alarm& alarm) {
  std::string name = fs::path(model).stem().string() + "-" + std::string(alarm.rule->code) + "-" + alarm.place.name();
  constexpr std::size_t kLongest = 100;
  name.resize(std::min(name.size(), kLongest));
  for (char& c : name) {
    const bool harmless =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!harmless) c = '_';
  }
  // The same node of another model of that name is another finding.
  constexpr std::size_t kDigits = 8;
  return name + "-" + fingerprint(*alarm.rule, {.node = alarm.fingerprint, .scope = model}, 0, 0).substr(0, kDigits);
}

NamedTensors inputs_of(const Graph& graph, const Drawn& drawn) {
  NamedTensors inputs;
  for (const ValueId id : graph.main().inputs) {
    const auto given = drawn.inputs.find(graph.value(id).name);
    if (given != drawn.inputs.end() && given->second.tensor() != nullptr) {
      inputs.emplace_back(given->first, *given->second.tensor());
    }
  }
  return inputs;
}

void write_data_set(const fs::path& folder, const Graph& graph, const FailingRun& witness) {
  fs::create_directories(folder / "test_data_set_0");
  const auto write = [&](const std::string& kind, std::size_t i, const Tensor& tensor, const std::string& name) {
    const fs::path file = folder / "test_data_set_0" / (kind + "_" + std::to_string(i) + ".pb");
    write_file_atomically(file.string(), write_tensor_proto(tensor, name));
  };
  NamedTensors arrays = inputs_of(graph, *witness.drawn);
  for (std::size_t i = 0; i < arrays.size(); ++i) write("input", i, arrays[i].second, arrays[i].first);
  const std::vector<ValueId>& outputs = graph.main().outputs;
  for (std::size_t i = 0; i < witness.outputs.size() && i < outputs.size(); ++i) {
    const Tensor* tensor = witness.outputs[i].tensor();
    if (tensor != nullptr) write("output", i, *tensor, graph.value(outputs[i]).name);
  }
  for (const auto& [id, datum] : witness.drawn->weights) {
    if (datum.tensor() != nullptr) arrays.emplace_back(graph.value(id).name, *datum.tensor());
  }
  write_file_atomically((folder / "inputs.npz").string(), write_npz(arrays));
}

// Under another name first: whoever looks finds all of it or nothing.
void write_folder(const fs::path& target, const Graph& graph, const FailingRun& witness) {
  const fs::path partial = target.parent_path() / ("." + target.filename().string() + ".partial");
  try {
    fs::remove_all(partial);
    write_data_set(partial, graph, witness);
    fs::remove_all(target);
    fs::rename(partial, target);
  } catch (const fs::filesystem_error& error) {
    throw Error("--witness: cannot write " + target.string() + ": " + error.code().message());
  }
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

void write_witnesses(Report& report, const Graph& graph, std::span<const FailingRun> witnesses,
                     const std::string& folder) {
  for (Alarm& alarm : report.alarms) {
    const auto witness = std::ranges::find(witnesses, alarm.finding, &FailingRun::finding);
    if (witness == witnesses.end() || !alarm.counts()) continue;
    const fs::path target = fs::path(folder) / folder_name(report.model, alarm);
    write_folder(target, graph, *witness);
    alarm.failure.folder = target.string();
  }
}

}  // namespace finity
