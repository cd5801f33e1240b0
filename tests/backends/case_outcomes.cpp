#include "backends/case_outcomes.h"

#include <filesystem>
#include <optional>
#include <sstream>

#include "backends/probe.h"
#include "base/error.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "ops/table/op.h"
#include "support/difference.h"
#include "support/paths.h"
#include "support/support.h"
#include "types/infer.h"

namespace finity {

namespace fs = std::filesystem;

namespace {

NamedData inputs_of(const OpCase& test) {
  NamedData inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  }
  return inputs;
}

// Random ops have no one result.
std::optional<std::vector<Datum>> reference_of(const OpCase& test, const NamedData& inputs) {
  for (const Node& node : test.graph.nodes()) {
    if (node.op == nullptr || node.op->traits.random) return std::nullopt;
  }
  try {
    infer_types(test.graph);
    return run_reference(test.graph, Inputs(inputs.begin(), inputs.end()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "" for the reference's results, "declined", or what is worth a line.
std::string outcome_of(Backend& backend, const OpCase& test, const NamedData& inputs,
                       const std::vector<Datum>& expected, std::string& words) {
  const Answer answer = run_either_way(backend, test.graph, inputs);
  words = answer.text;
  if (answer.outcome == Answer::Outcome::unsupported) return "declined";
  if (!answer.done()) return std::string(name(answer.outcome));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    words = difference(test.graph, inputs, answer.outputs.at(i).second, expected[i]);
    if (!words.empty()) return "differs";
  }
  return {};
}

std::string op_of(const Graph& graph) { return qualified_name(*graph.node(graph.main().nodes.back()).op); }

// What is known of an op so far, with one more case.
std::string joined(const std::string& before, const std::string& outcome) {
  if (outcome == "declined") return before.empty() || before == "no" ? "no" : "partly";
  return before.empty() || before == "runs" ? "runs" : "partly";
}

}  // namespace

CaseOutcomes run_cases(Backend& backend) {
  CaseOutcomes result;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    const std::string family = entry.path().stem().string();
    for (const OpCase& test : parse_cases(read_text_file(entry.path()), family)) {
      const NamedData inputs = inputs_of(test);
      const auto expected = reference_of(test, inputs);
      if (!expected || test.graph.main().nodes.empty()) continue;
      std::string words;
      const std::string outcome = outcome_of(backend, test, inputs, *expected, words);
      std::string& of_op = result.ops[op_of(test.graph)];
      of_op = joined(of_op, outcome);
      if (outcome.empty()) ++result.agreed;
      if (outcome.empty() || outcome == "declined") continue;
      result.cases[family + "/" + test.name] = outcome;
      result.words[family + "/" + test.name] = words;
    }
  }
  std::erase_if(result.ops, [](const auto& entry) { return entry.second == "no"; });
  return result;
}

ReviewedTable read_reviewed(const std::string& path) {
  ReviewedTable result;
  if (!fs::exists(path)) return result;
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    std::string kind, name, outcome, reason;
    std::getline(cells, kind, '\t');
    std::getline(cells, name, '\t');
    std::getline(cells, outcome, '\t');
    std::getline(cells, reason);
    (kind == "op" ? result.ops : result.cases)[name] = outcome;
    if (!reason.empty()) result.reasons[name + "\t" + outcome] = reason;
  }
  return result;
}

std::string reviewed_text(const ReviewedTable& before, const CaseOutcomes& now) {
  std::string text =
      "# What a backend does with the cases of testdata/ops. Reviewed: tests/backends fails when it differs.\n"
      "#   op    runs    every case, with the reference's results but for the cases below\n"
      "#         partly  some cases are declined as not supported\n"
      "#         Ops that are not listed are declined.\n"
      "#   case  one with another result, refusal or crash where the reference has a result, and why; `varies`: what\n"
      "#         comes out is not the same every time\n";
  const auto line = [&](const char* kind, const std::string& name, const std::string& outcome) {
    const auto reason = before.reasons.find(name + "\t" + outcome);
    text += std::string(kind) + "\t" + name + "\t" + outcome;
    if (reason != before.reasons.end()) text += "\t" + reason->second;
    text += "\n";
  };
  for (const auto& [name, outcome] : now.ops) line("op", name, outcome);
  std::map<std::string, std::string> cases = now.cases;
  for (const auto& [name, outcome] : before.cases) {
    if (outcome == kVaries) cases[name] = outcome;
  }
  for (const auto& [name, outcome] : cases) line("case", name, outcome);
  return text;
}

}  // namespace finity
