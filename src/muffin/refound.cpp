#include "muffin/refound.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "fuzz/known.h"
#include "fuzz/public_steps.h"

namespace finity::muffin {

namespace {

fuzz::BackendSpec spec_of(const std::string& backend) {
  const std::size_t at = backend.find('@');
  return {backend.substr(0, at), at == std::string::npos ? "" : backend.substr(at + 1)};
}

// One layer by itself, on what the library computed before it. It has no steps when the layer only hands on.
fuzz::Sample alone(const Model& model, const Trace& trace, int number) {
  const Layer& layer = model.layers[static_cast<std::size_t>(number)];
  fuzz::Sample sample = model.sample;
  for (const int from : layer.from) {
    if (from < 0) continue;
    const std::string& operand = model.layers[static_cast<std::size_t>(from)].output;
    sample.inputs[operand] = trace.outputs[static_cast<std::size_t>(from)];
    std::erase_if(sample.steps, [&](const fuzz::Step& step) {
      return std::ranges::find(step.outputs, operand) != step.outputs.end();
    });
  }
  sample.outputs = {layer.output};
  drop_unneeded(sample);
  return sample;
}

// Holds the layer's result against its bounds; what is wrong goes into the complaint.
Look::Proof prove(const fuzz::Sample& sample, const Tensor& result, fuzz::Complaint& complaint) {
  if (sample.steps.empty()) return Look::Proof::open;
  try {
    fuzz::Counts counts;
    for (fuzz::Complaint& one : compare_with_boxes(sample, {{sample.outputs[0], result}}, "", counts)) {
      if (!one.proven) continue;
      complaint = std::move(one);
      return Look::Proof::wrong;
    }
    return counts.elements > 0 && counts.undecided == 0 ? Look::Proof::right : Look::Proof::open;
  } catch (const Error&) {
    return Look::Proof::open;
  }
}

// The entries of the table that it can be. A table's entry may speak of graphs as written or as optimised, and of the
// op to blame: Muffin's oracle knows neither, so each is tried.
std::vector<Look::Fault> faults_of(fuzz::Finding finding, bool proven) {
  std::vector<fuzz::KnownFault> fitting;
  for (const Optimisation level : {Optimisation::none, Optimisation::all}) {
    for (const fuzz::Step& step : finding.sample.steps) {
      finding.complaint.level = level;
      finding.complaint.op = step.op;
      for (fuzz::KnownFault& fault : known_faults(finding)) {
        if (std::ranges::find(fitting, fault.text, &fuzz::KnownFault::text) == fitting.end())
          fitting.push_back(std::move(fault));
      }
    }
  }
  std::vector<Look::Fault> faults;
  for (const fuzz::KnownFault& fault : fitting)
    faults.push_back({fault.text, proven && fault.exact && fitting.size() == 1});
  return faults;
}

class Looking {
 public:
  Looking(const Model& model, const std::vector<Trace>& traces) : model_(model), traces_(traces) {}

  void layer(const std::string& stage, int number, const std::string& kind, std::size_t t) {
    if (!seen_.emplace(stage, number, kind, t).second) return;
    Look look{.stage = stage, .layer = number, .kind = kind, .trace = t};
    if (number >= 0) {
      fuzz::Finding finding{.backend = spec_of(traces_[t].backend), .sample = alone(model_, traces_[t], number)};
      finding.complaint.derivative = stage == "BC";
      if (stage != "BC")
        look.proof = prove(finding.sample, traces_[t].outputs[static_cast<std::size_t>(number)], finding.complaint);
      finding.sample = fuzz::with_older_forms(finding.sample);
      if (look.proof != Look::Proof::right) look.faults = faults_of(finding, look.proof == Look::Proof::wrong);
    }
    looks_.push_back(std::move(look));
  }

  // A crash concerns the whole model.
  void crash(const Crash& crash) {
    fuzz::Finding finding{.backend = spec_of(traces_[crash.trace].backend), .sample = model_.sample};
    finding.complaint.symptom = crash.while_running ? fuzz::Symptom::crash : fuzz::Symptom::exception;
    looks_.push_back({.stage = "crash", .trace = crash.trace, .faults = faults_of(finding, false)});
  }

  std::vector<Look> take() { return std::move(looks_); }

 private:
  const Model& model_;
  const std::vector<Trace>& traces_;
  std::set<std::tuple<std::string, int, std::string, std::size_t>> seen_;
  std::vector<Look> looks_;
};

}  // namespace

std::string_view name(Look::Proof proof) {
  constexpr std::string_view kNames[] = {"wrong", "right", "open"};
  return kNames[static_cast<std::size_t>(proof)];
}

std::vector<Look> look_into(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict) {
  Looking looking(model, traces);
  for (const Inconsistency& one : verdict.inconsistencies) {
    for (const std::size_t t : {one.a, one.b}) looking.layer(std::string(name(one.phase)), one.layer, one.kind, t);
  }
  // Whoever has numbers where NaN is due is as wrong as who has NaN where a number is.
  for (const NanLayer& nan : verdict.nans) {
    for (std::size_t t = 0; t < traces.size(); ++t) {
      if (traces[t].ran()) looking.layer("NaN", nan.layer, nan.kind, t);
    }
  }
  for (const Crash& crash : verdict.crashes) looking.crash(crash);
  return looking.take();
}

}  // namespace finity::muffin
