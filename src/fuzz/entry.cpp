#include "fuzz/entry.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace finity::fuzz {

namespace {

using nlohmann::json;

json to_json(const Complaint& c) {
  return {{"symptom", static_cast<int>(c.symptom)},
          {"optimised", c.level != Optimisation::none},
          {"op", c.op},
          {"tensor", c.tensor},
          {"element", c.element},
          {"proven", c.proven},
          {"text", c.text}};
}

Complaint complaint_of(const json& j) {
  const int symptom = j.at("symptom").get<int>();
  if (symptom < 0 || symptom > static_cast<int>(Symptom::broken_law)) throw Error("there is no such symptom");
  return {.symptom = static_cast<Symptom>(symptom),
          .level = j.at("optimised").get<bool>() ? Optimisation::all : Optimisation::none,
          .op = j.at("op").get<std::string>(),
          .tensor = j.at("tensor").get<std::string>(),
          .element = j.at("element").get<std::int64_t>(),
          .proven = j.at("proven").get<bool>(),
          .text = j.at("text").get<std::string>()};
}

json to_json(const BackendOutcome& outcome) {
  const Counts& c = outcome.counts;
  json complaints = json::array();
  for (const Complaint& complaint : outcome.complaints) complaints.push_back(to_json(complaint));
  return {{"family", outcome.backend.family},
          {"version", outcome.backend.version},
          {"counts", {c.runs, c.steps, c.elements, c.undecided, c.refused}},
          {"complaints", complaints}};
}

BackendOutcome outcome_of(const json& j) {
  const auto counts = j.at("counts").get<std::vector<std::int64_t>>();
  if (counts.size() != 5) throw Error("five counts are expected");
  BackendOutcome outcome{
      .backend = {.family = j.at("family").get<std::string>(), .version = j.at("version").get<std::string>()},
      .counts = {counts[0], counts[1], counts[2], counts[3], counts[4]}};
  for (const json& complaint : j.at("complaints")) outcome.complaints.push_back(complaint_of(complaint));
  return outcome;
}

json to_json(const FindingRow& f) {
  return {{"key", f.key},           {"backend", f.backend}, {"symptom", f.symptom}, {"chain", f.chain},
          {"versions", f.versions}, {"known", f.known},     {"text", f.text},       {"optimised", f.optimised},
          {"proven", f.proven},     {"steps", f.steps},     {"folder", f.folder}};
}

FindingRow finding_of(const json& j) {
  const auto text = [&](const char* name) { return j.at(name).get<std::string>(); };
  return {.key = text("key"),
          .backend = text("backend"),
          .symptom = text("symptom"),
          .chain = text("chain"),
          .versions = text("versions"),
          .known = text("known"),
          .text = text("text"),
          .optimised = j.at("optimised").get<bool>(),
          .proven = j.at("proven").get<bool>(),
          .steps = j.at("steps").get<std::int64_t>(),
          .folder = text("folder")};
}

}  // namespace

FindingRow row_of(const Finding& finding, const std::string& folder) {
  const Complaint& c = finding.complaint;
  return {.key = finding.key,
          .backend = finding.backend.text(),
          .symptom = std::string(name(c.symptom)),
          .chain = op_chain(finding.sample),
          .versions = strip_text(finding.versions),
          .known = finding.known,
          .text = c.text,
          .optimised = c.level != Optimisation::none,
          .proven = c.proven,
          .steps = static_cast<std::int64_t>(finding.sample.steps.size()),
          .folder = folder};
}

std::string to_line(const Entry& entry) {
  json outcomes = json::array(), findings = json::array();
  for (const BackendOutcome& outcome : entry.outcomes) outcomes.push_back(to_json(outcome));
  for (const FindingRow& finding : entry.findings) findings.push_back(to_json(finding));
  const json all = {{"id", entry.id},       {"origin", entry.origin}, {"chain", entry.chain},
                    {"opset", entry.opset}, {"legal", entry.legal},   {"cells", entry.cells},
                    {"outcomes", outcomes}, {"looked", entry.looked}, {"findings", findings}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Entry entry_of(std::string_view line) {
  try {
    const json j = json::parse(line);
    Entry entry{.id = j.at("id").get<std::int64_t>(),
                .origin = j.at("origin").get<std::string>(),
                .chain = j.at("chain").get<std::string>(),
                .opset = j.at("opset").get<std::int64_t>(),
                .legal = j.at("legal").get<bool>(),
                .cells = j.at("cells").get<std::vector<CoverageCell>>(),
                .looked = j.at("looked").get<std::vector<std::string>>()};
    for (const json& outcome : j.at("outcomes")) entry.outcomes.push_back(outcome_of(outcome));
    for (const json& finding : j.at("findings")) entry.findings.push_back(finding_of(finding));
    return entry;
  } catch (const json::exception& wrong) {
    throw Error(std::string("is no entry of a campaign: ") + wrong.what());
  }
}

}  // namespace finity::fuzz
