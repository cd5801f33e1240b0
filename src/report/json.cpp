// For programs: everything, under a schema name that changes when a field changes its meaning or goes.
#include <nlohmann/json.hpp>

#include "report/words.h"

namespace finity {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json to_json(const Range& range, DType dtype) {
  Json json;
  json["text"] = range_text(range, dtype);
  json["low"] = range.has_finite() ? Json(range.lo) : Json();
  json["high"] = range.has_finite() ? Json(range.hi) : Json();
  json["positive_infinity"] = range.pinf;
  json["negative_infinity"] = range.ninf;
  json["nan"] = range.nan;
  return json;
}

Json to_json(const Step& step) {
  if (step.skipped > 0) return {{"skipped", step.skipped}};
  Json json = {
      {"value", step.value}, {"type", step.type}, {"range", to_json(step.range, step.dtype)}, {"made_by", step.maker}};
  if (!step.holds.empty()) json["holds"] = step.holds;
  return json;
}

Json source_json(const Place& place) {
  if (place.source_line <= 0) return {};
  return {{"file", place.source_file}, {"line", place.source_line}};
}

Json failure_json(const SeenFailure& failure) {
  if (failure.what.empty()) return {};
  Json json = {{"what", failure.what}, {"inputs", Json::array()}, {"in_full", failure.in_full}};
  for (const FailingInput& input : failure.inputs) {
    json["inputs"].push_back({{"name", input.name}, {"type", input.type}, {"text", input.text}});
  }
  json["folder"] = or_null(failure.folder);
  return json;
}

Json to_json(const Alarm& alarm) {
  Json json;
  json["rule"] = alarm.rule->code;
  json["slug"] = alarm.rule->slug;
  json["verdict"] = name(alarm.verdict);
  json["certain"] = alarm.certain;
  json["message"] = message(alarm);
  json["fix"] = or_null(std::string(fix_of(alarm)));
  if (!alarm.contract.empty()) json["contract"] = alarm.contract;
  json["fingerprint"] = alarm.fingerprint;
  json["node"] = or_null(alarm.place.node);
  json["op"] = or_null(alarm.place.op);
  json["output"] = alarm.place.output;
  json["scope"] = alarm.place.scope;
  json["source"] = source_json(alarm.place);
  json["operand"] = alarm.operand < 0 ? Json() : Json(alarm.operand);
  json["tensor"] = alarm.tensor;
  json["type"] = alarm.type;
  json["range"] = to_json(alarm.seen, alarm.dtype);
  json["unsafe"] = or_null(alarm.unsafe);
  json["reason"] = or_null(alarm.reason);
  json["failure"] = failure_json(alarm.failure);
  json["observed"] = or_null(alarm.observed);
  json["searched"] = or_null(alarm.searched);
  json["path"] = Json::array();
  for (const Step& step : alarm.path) json["path"].push_back(to_json(step));
  json["assumptions"] = alarm.assumed;
  json["caused_by"] = alarm.root < 0 ? Json() : Json(alarm.root);
  json["accepted"] = alarm.counts() ? Json() : Json{{"by", name(alarm.accepted)}, {"why", alarm.accepted_why}};
  return json;
}

Json to_json(const Counts& counts, bool complete) {
  return {{"nodes", counts.nodes},     {"modelled_nodes", counts.modelled}, {"sites", counts.sites},
          {"proved", counts.proved},   {"confirmed", counts.confirmed},     {"possible", counts.possible},
          {"unknown", counts.unknown}, {"accepted", counts.accepted},       {"complete", complete}};
}

Json block_list_json(const BlockList& blocked) {
  if (!blocked.present) return {};
  return {{"nodes", blocked.nodes},
          {"proved", blocked.proved},
          {"in_any_format", blocked.excused},
          {"seen_to_fail", blocked.failing},
          {"observed_share_of_limit", blocked.reached},
          {"observed_runs", blocked.runs},
          {"note", blocked.note}};
}

Json to_json(const Report& report) {
  Json json;
  json["model"] = report.model;
  json["error"] = or_null(report.error);
  if (!report.error.empty()) return json;
  json["options"] = Json::object();
  for (const auto& [key, value] : report.options) json["options"][key] = value;
  json["coverage"] = to_json(report.counts, report.complete);
  json["summary"] = summary_line(report);
  json["not_checked"] = {{"nodes", report.not_checked.nodes}, {"why", report.not_checked.why}};
  json["covered"] = report.covered;
  json["guesses"] = report.guesses;
  json["assumptions"] = report.assumptions;
  json["findings"] = Json::array();
  for (const Alarm& alarm : report.alarms) json["findings"].push_back(to_json(alarm));
  json["notes"] = Json::array();
  for (const Note& note : report.notes) json["notes"].push_back({{"where", note.where}, {"text", note.text}});
  json["keep_nodes"] = block_list_json(report.block_list);
  json["verified"] = or_null(report.verified);
  json["unverified"] = or_null(report.unverified);
  json["seconds"] = {{"read", report.read_seconds}, {"check", report.check_seconds}};
  return json;
}

}  // namespace

std::string json_report(const CheckResult& result) {
  Json json;
  json["schema"] = "finity-check/1";
  json["finity"] = result.version;
  json["exit_code"] = exit_code(result);
  json["fail_on"] = name(result.fail_on);
  json["config"] = or_null(result.config);
  json["interrupted"] = result.interrupted;
  json["warnings"] = result.warnings;
  json["models"] = Json::array();
  for (const Report& report : result.reports) json["models"].push_back(to_json(report));
  // Names come from files and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace finity
