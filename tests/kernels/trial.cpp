#include "kernels/trial.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "check/analyze.h"
#include "check/escape.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"
#include "kernels/operands.h"

namespace finity::kernels {

namespace {

void append_field(std::string& out, int field, std::string_view content) {
  out += static_cast<char>(field << 3 | 2);
  for (std::size_t size = content.size(); true; size >>= 7) {
    out += static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0));
    if (size <= 0x7f) break;
  }
  out += content;
}

// The values of the main body that nodes compute. An optional that holds nothing cannot be handed over.
std::vector<ValueId> computed_values(const Subject& subject) {
  std::vector<ValueId> ids;
  for (const NodeId node : subject.graph.main().nodes) {
    for (const ValueId id : subject.graph.node(node).outputs) {
      if (id.valid() && subject.types[id].kind != Type::Kind::optional) ids.push_back(id);
    }
  }
  return ids;
}

// A model file to which the other computed values were added as outputs: parts of a message that come twice are
// merged, and ONNX Runtime infers the types of outputs that have none.
std::string with_all_outputs(const Subject& subject, std::string model) {
  const Graph& graph = subject.graph;
  std::string outputs;
  for (const ValueId id : computed_values(subject)) {
    if (std::ranges::find(graph.main().outputs, id) != graph.main().outputs.end()) continue;
    std::string value;
    append_field(value, 1, graph.value(id).name);
    append_field(outputs, 12, value);
  }
  if (!outputs.empty()) append_field(model, 7, outputs);
  return model;
}

std::string kind_of_escape(const std::string& what) {
  if (what.starts_with("is ") || what.starts_with("has ") || what.find("never computed") != std::string::npos)
    return "form";
  if (what.starts_with("was taken to be")) return "relation";
  if (what.find(" is NaN") != std::string::npos) return "NaN";
  return what.find("Inf, ") != std::string::npos ? "infinite" : "beyond";
}

std::string text_of(const Datum& datum) {
  if (datum.tensor() != nullptr) return print_tensor(*datum.tensor());
  return datum.sequence() != nullptr ? "a sequence" : "absent";
}

std::string text_of(const AbsTensor& range) {
  std::string text;
  for (const Range& cell : range.cells) text += (text.empty() ? "" : " ") + to_string(cell);
  return range.cells.size() > 16 ? to_string(range.hull()) + " in all" : text;
}

std::size_t total_size(const Inputs& inputs) {
  std::size_t size = 0;
  for (const auto& [name, datum] : inputs) {
    if (datum.tensor() != nullptr) size += static_cast<std::size_t>(datum.tensor()->size());
  }
  return size;
}

class Trial {
 public:
  Trial(Worker& worker, const Subject& subject, Tally& tally)
      : worker_(worker), subject_(subject), tally_(tally), model_(write_onnx(subject.graph)) {}

  // False: there is no use in going on with this subject.
  bool run(const Told& told, const Analysis& analysis, const Inputs& inputs, Optimisation level) {
    const Answer answer = worker_.run(request(inputs, level));
    if (!answer.done()) return count_failure(answer);
    ++tally_.runs;
    judge(told, analysis, inputs, answer, level);
    return true;
  }

 private:
  Request request(const Inputs& inputs, Optimisation level) const {
    const bool all = level == Optimisation::none;
    Request result{.model = all ? with_all_outputs(subject_, model_) : model_, .level = level};
    for (const auto& [name, datum] : inputs) result.run.inputs.emplace_back(name, datum);
    for (const ValueId id : all ? computed_values(subject_) : subject_.graph.main().outputs)
      result.run.outputs.push_back(subject_.graph.value(id).name);
    return result;
  }

  bool count_failure(const Answer& answer) {
    const bool dead = answer.outcome == Answer::Outcome::crashed || answer.outcome == Answer::Outcome::late;
    const bool missing = answer.outcome == Answer::Outcome::unsupported;
    ++(dead ? tally_.crashed : missing ? tally_.unsupported : tally_.refused);
    std::string& first = dead ? tally_.first_crash : missing ? tally_.first_unsupported : tally_.first_refusal;
    if (first.empty()) first = answer.text + " [" + subject_.name + "]";
    return answer.stage != Stage::load && !dead;
  }

  void judge(const Told& told, const Analysis& analysis, const Inputs& inputs, const Answer& answer,
             Optimisation level) {
    const auto escaped = [&](const Node* node, ValueId id, const std::string& what) {
      record(told, analysis, inputs, answer, level, node, id, what);
    };
    const Graph& graph = subject_.graph;
    Judge judge(graph, analysis, tally_.judged, true, escaped);
    for (const ValueId id : graph.main().inputs) {
      const auto given = inputs.find(graph.value(id).name);
      if (given != inputs.end()) judge.give(id, given->second);
    }
    for (const NodeId id : graph.main().nodes) {
      const Node& node = graph.node(id);
      std::vector<Datum> outputs;
      for (const ValueId output : node.outputs) outputs.push_back(found(answer, output));
      judge.look_at(node, outputs);
    }
  }

  Datum found(const Answer& answer, ValueId id) const {
    if (!id.valid()) return {};
    for (const auto& [name, datum] : answer.outputs) {
      if (name == subject_.graph.value(id).name) return datum;
    }
    return {};
  }

  void record(const Told& told, const Analysis& analysis, const Inputs& inputs, const Answer& answer,
              Optimisation level, const Node* node, ValueId id, const std::string& what) {
    Escape escape{.kind = kind_of_escape(what), .level = level == Optimisation::none ? "" : "optimised"};
    Escape& known = tally_.escapes.try_emplace(escape.kind + " " + escape.level, escape).first->second;
    // The smallest example is the easiest to read.
    const std::size_t size = total_size(inputs);
    if (known.count++ > 0 && size >= known.example_size) return;
    known.example_size = size;
    std::ostringstream text;
    const Graph& graph = subject_.graph;
    text << "case " << subject_.name << "\n" << print_graph(graph);
    for (const auto& [name, datum] : inputs) text << name << " = " << text_of(datum) << "\n";
    for (const ValueId input : graph.main().inputs) {
      if (told.premises.of[input.at()] != nullptr)
        text << graph.value(input).name << " told " << text_of(*told.premises.of[input.at()]) << "\n";
    }
    text << (node == nullptr ? "" : describe(graph, *node) + ": ") << "'" << graph.value(id).name << "' " << what
         << "\n";
    text << "given    " << text_of(found(answer, id)) << "\n";
    text << "claimed  " << text_of(analysis.ranges[id.at()]) << "\n";
    for (const Finding& finding : analysis.findings) {
      if (finding.verdict != Verdict::proved)
        text << "finding  " << finding.rule << " " << name(finding.verdict) << " seen " << to_string(finding.seen)
             << "\n";
    }
    known.example = text.str();
  }

  Worker& worker_;
  const Subject& subject_;
  Tally& tally_;
  std::string model_;
};

struct Analysed {
  Told told = {};
  Analysis analysis = {};
};

std::vector<Analysed> analysed(const Subject& subject, const TrialOptions& options) {
  std::vector<Analysed> all;
  for (Told& told : drawn_operands(subject, options.seed, options.mixes)) {
    Analysis analysis = analyze(subject.graph, subject.types, told.premises, {});
    all.push_back({std::move(told), std::move(analysis)});
  }
  return all;
}

}  // namespace

void Tally::add(const Tally& other) {
  cases += other.cases;
  runs += other.runs;
  judged.tensors += other.judged.tensors;
  judged.elements += other.judged.elements;
  judged.vacuous += other.judged.vacuous;
  judged.skipped += other.judged.skipped;
  for (const auto& [key, escape] : other.escapes) {
    const auto [mine, added] = escapes.try_emplace(key, escape);
    if (!added) mine->second.count += escape.count;
  }
  refused += other.refused;
  unsupported += other.unsupported;
  crashed += other.crashed;
  if (first_refusal.empty()) first_refusal = other.first_refusal;
  if (first_unsupported.empty()) first_unsupported = other.first_unsupported;
  if (first_crash.empty()) first_crash = other.first_crash;
}

void try_subject(Worker& worker, const Subject& subject, const TrialOptions& options, Tally& tally) {
  ++tally.cases;
  try {
    Trial trial(worker, subject, tally);
    std::vector<Analysed> all;
    for (const Optimisation level : {Optimisation::none, Optimisation::all}) {
      bool going = true;
      for (std::size_t i = 0; going && (i == 0 || i < all.size()); ++i) {
        if (all.empty()) all = analysed(subject, options);
        for (std::size_t k = 0; going && k < all[i].told.inputs.size(); ++k)
          going = trial.run(all[i].told, all[i].analysis, all[i].told.inputs[k], level);
      }
      if (!going) break;
    }
  } catch (const Error& error) {
    ++tally.refused;
    if (tally.first_refusal.empty()) tally.first_refusal = std::string(error.what()) + " [" + subject.name + "]";
  }
}

}  // namespace finity::kernels
