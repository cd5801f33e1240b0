// SARIF 2.1.0, as code scanning services read it: one run, a rule entry for every
// rule, logical locations for nodes, a code flow for the path, fingerprints of our
// own because a service cannot take them from the lines of a binary file.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "ops/table/rule_group.h"
#include "report/words.h"

namespace finity {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxResults = 25'000;  // what GitHub takes

Json text_json(std::string_view text) { return {{"text", text}}; }

// Relative paths stay relative; other characters than the unreserved ones are escaped.
std::string uri(const std::string& path) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  static constexpr std::string_view kPlain = "-._~/";
  std::string result = path.starts_with("/") ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) result += c;
    else result += std::string("%") + kHex[byte >> 4U] + kHex[byte & 15U];
  }
  return result;
}

Json physical(const std::string& file, int line) {
  return {{"artifactLocation", {{"uri", uri(file)}}}, {"region", {{"startLine", line}}}};
}

Json rule_json(const Rule& rule) {
  const std::string help = std::string(rule.detail) + "\n\nFix: " + std::string(rule.fix) + ".";
  const std::string markdown = std::string(rule.detail) + "\n\n**Fix:** " + std::string(rule.fix) + ".";
  return {{"id", rule.code},
          {"name", rule.slug},
          {"shortDescription", text_json(rule.summary)},
          {"fullDescription", text_json(rule.detail)},
          {"help", {{"text", help}, {"markdown", markdown}}},
          {"defaultConfiguration", {{"level", group_of(rule.code) == RuleGroup::coverage ? "note" : "warning"}}}};
}

std::string level(const Alarm& alarm) {
  if (alarm.verdict == Verdict::unknown) return "note";
  return alarm.verdict == Verdict::confirmed || alarm.certain ? "error" : "warning";
}

Json logical(const Place& place) {
  const std::string full = place.scope.empty() ? place.name() : place.scope + "/" + place.name();
  return {{"name", place.name()}, {"fullyQualifiedName", full}, {"kind", place.op.empty() ? "constant" : "node"}};
}

// Where a reader should look first: the line of Python when the exporter left it, else the model.
Json location(const Report& report, const Place& place) {
  const bool python = place.source_line > 0;
  return {{"physicalLocation", python ? physical(place.source_file, place.source_line) : physical(report.model, 1)},
          {"logicalLocations", Json::array({logical(place)})}};
}

Json flow_location(const Report& report, const Step& step) {
  if (step.skipped > 0) {
    return {{"physicalLocation", physical(report.model, 1)},
            {"message", text_json("... " + counted(step.skipped, "more step"))}};
  }
  const std::string text = "'" + step.value + "' " + range_text(step.range, step.dtype) + ", " + step.maker +
                           (step.holds.empty() ? "" : ", " + step.holds);
  return {{"physicalLocation", physical(report.model, 1)},
          {"logicalLocations",
           Json::array({{{"name", step.value}, {"fullyQualifiedName", step.value}, {"kind", "value"}}})},
          {"message", text_json(printable(text))}};
}

Json code_flow(const Report& report, const Alarm& alarm) {
  Json locations = Json::array();
  for (const Step& step : alarm.path) locations.push_back({{"location", flow_location(report, step)}});
  Json last = location(report, alarm.place);
  last["message"] = text_json(printable(alarm.place.title + ": " + what_happens(alarm)));
  locations.push_back({{"location", std::move(last)}});
  return {{"threadFlows", Json::array({{{"locations", std::move(locations)}}})}};
}

Json suppressions(const Alarm& alarm) {
  if (alarm.counts()) return Json::array();
  const char* kind = alarm.accepted == Acceptance::model ? "inSource" : "external";
  return Json::array({{{"kind", kind}, {"status", "accepted"}, {"justification", alarm.accepted_why}}});
}

class SarifWriter {
 public:
  explicit SarifWriter(const CheckResult& result) : result_(result) {
    for (const Rule& rule : all_rules()) {
      rule_index_[rule.code] = rules_.size();
      rules_.push_back(rule_json(rule));
    }
    // The format wants it at all results or at none.
    for (const Report& report : result.reports) with_suppressions_ |= report.counts.accepted > 0;
  }

  std::string write() {
    Json results = all_results();
    Json run;
    run["tool"]["driver"] = {{"name", "finity"}, {"version", result_.version}, {"rules", std::move(rules_)}};
    run["invocations"] = Json::array({invocation()});
    run["artifacts"] = Json::array();
    for (const Report& report : result_.reports) {
      run["artifacts"].push_back(
          {{"location", {{"uri", uri(report.model)}}}, {"roles", Json::array({"analysisTarget"})}});
    }
    run["results"] = std::move(results);
    const Json log = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", Json::array({std::move(run)})}};
    return log.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  Json all_results() {
    Json results = Json::array();
    for (const Report& report : result_.reports) {
      for (const Alarm& alarm : report.alarms) {
        if (results.size() < kMaxResults) results.push_back(one_result(report, alarm));
        else ++left_out_;
      }
    }
    return results;
  }

  Json one_result(const Report& report, const Alarm& alarm) {
    Json json;
    json["ruleId"] = alarm.rule->code;
    if (const auto index = rule_index_.find(alarm.rule->code); index != rule_index_.end()) {
      json["ruleIndex"] = index->second;
    }
    json["level"] = level(alarm);
    json["message"] = text_json(message(alarm));
    json["locations"] = Json::array({location(report, alarm.place)});
    if (alarm.place.source_line > 0) {
      json["relatedLocations"] = Json::array(
          {{{"id", 0}, {"physicalLocation", physical(report.model, 1)}, {"message", text_json("the model")}}});
    }
    json["codeFlows"] = Json::array({code_flow(report, alarm)});
    json["partialFingerprints"] = {{"finity/v1", alarm.fingerprint}};
    if (with_suppressions_) json["suppressions"] = suppressions(alarm);
    json["properties"] = {{"verdict", name(alarm.verdict)},
                          {"certain", alarm.certain},
                          {"range", range_text(alarm.seen, alarm.dtype)},
                          {"assumptions", alarm.assumed}};
    return json;
  }

  Json invocation() const {
    Json notifications = Json::array();
    const auto notify = [&](const char* level, const std::string& text) {
      notifications.push_back({{"level", level}, {"message", text_json(printable(text))}});
    };
    for (const Report& report : result_.reports) {
      if (!report.error.empty()) notify("error", report.error);
      const bool partly = report.error.empty() && (report.not_checked.nodes > 0 || !report.complete);
      if (partly) notify("warning", report.model + ": " + summary_line(report));
      for (const Note& note : report.notes) {
        notify("note", report.model + ": " + (note.where.empty() ? "" : note.where + ": ") + note.text);
      }
    }
    for (const std::string& warning : result_.warnings) notify("warning", warning);
    if (left_out_ > 0) notify("warning", counted(left_out_, "more result") + " left out");
    return {{"executionSuccessful", exit_code(result_) != 2},
            {"exitCode", exit_code(result_)},
            {"toolExecutionNotifications", std::move(notifications)}};
  }

  const CheckResult& result_;
  Json rules_ = Json::array();
  std::map<std::string_view, std::size_t> rule_index_;
  bool with_suppressions_ = false;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string sarif_report(const CheckResult& result) { return SarifWriter(result).write(); }

}  // namespace finity
