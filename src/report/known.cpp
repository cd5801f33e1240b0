#include "report/known.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/mapped_file.h"
#include "check/contract.h"
#include "report/words.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

// 1 named models by their base names only.
constexpr const char* kSchema = "finity-baseline/2";

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

// Only the words of the path count: a checkout whose files are links elsewhere is the same everywhere.
fs::path full_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

std::string shown_path(const std::string& path) {
  return fs::path(path).lexically_proximate(fs::current_path()).string();
}

bool speaks_of_model(const AcceptEntry& entry, const std::string& model) {
  return matches_glob(entry.model, model) || matches_glob(entry.model, file_name(model));
}

bool matches(const AcceptEntry& entry, const std::string& model, const Alarm& alarm) {
  if (!may_silence(entry.rule, *alarm.rule) || !speaks_of_model(entry, model)) return false;
  const Place& place = alarm.place;
  return matches_glob(entry.node, place.node) || matches_glob(entry.node, place.output) ||
         matches_glob(entry.node, place.scope + "/" + place.name());
}

void accept(Report& report, Alarm& alarm, Acceptance by, std::string why) {
  alarm.accepted = by;
  alarm.accepted_why = std::move(why);
  ++report.counts.accepted;
}

void accept_by_config(Report& report, Alarm& alarm, std::vector<AcceptEntry>& entries) {
  for (AcceptEntry& entry : entries) {
    if (!matches(entry, report.model, alarm)) continue;
    entry.used = true;
    if (!alarm.counts()) continue;
    accept(report, alarm, Acceptance::config, entry.reason.empty() ? entry.where : entry.where + ": " + entry.reason);
  }
}

using ByFingerprint = std::unordered_multimap<std::string_view, BaselineEntry*>;

ByFingerprint entries_of(Known& known, const std::string& model) {
  ByFingerprint entries;
  for (BaselineEntry& entry : known.baseline) {
    if (entry.model == model) entries.emplace(entry.fingerprint, &entry);
  }
  return entries;
}

}  // namespace

void accept_known(Report& report, Known& known) {
  const ByFingerprint entries = entries_of(known, full_path(report.model).string());
  for (Alarm& alarm : report.alarms) {
    accept_by_config(report, alarm, known.accept);
    const auto [first, last] = entries.equal_range(alarm.fingerprint);
    for (auto entry = first; entry != last; ++entry) entry->second->used = true;
    if (first != last && alarm.counts()) accept(report, alarm, Acceptance::baseline, known.baseline_file);
  }
}

std::vector<std::string> stale_entries(const Known& known, const std::vector<Report>& reports,
                                       const Selection& selection) {
  const auto checked = [&](auto speaks) {
    return std::ranges::any_of(reports, [&](const Report& report) { return report.error.empty() && speaks(report); });
  };
  std::vector<std::string> lines;
  for (const AcceptEntry& entry : known.accept) {
    const auto selected = [&](const Rule& rule) {
      return may_silence(entry.rule, rule) && is_selected(selection, rule);
    };
    if (entry.used || !std::ranges::any_of(all_rules(), selected)) continue;
    if (!checked([&](const Report& report) { return speaks_of_model(entry, report.model); })) continue;
    lines.push_back(entry.where + ": nothing is accepted by this entry any more: " + entry.rule + " at '" + entry.node +
                    "'");
  }
  for (const BaselineEntry& entry : known.baseline) {
    const Rule* rule = find_rule(entry.rule);
    if (entry.used || (rule != nullptr && !is_selected(selection, *rule))) continue;
    if (!checked([&](const Report& report) { return full_path(report.model) == entry.model; })) continue;
    lines.push_back(known.baseline_file + ": no longer found: " + entry.rule + " at '" + entry.node + "' of " +
                    shown_path(entry.model));
  }
  return lines;
}

std::vector<BaselineEntry> read_baseline(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return parse_baseline({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

std::vector<BaselineEntry> parse_baseline(std::string_view text, const std::string& file) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("schema") != kSchema) {
      throw Error(file + ": not a baseline of this version (" + kSchema + "); finity baseline writes a new one");
    }
    const fs::path folder = fs::path(file).parent_path();
    std::vector<BaselineEntry> entries;
    for (const nlohmann::json& item : json.at("findings")) {
      entries.push_back({.fingerprint = item.at("fingerprint"),
                         .rule = item.at("rule"),
                         .node = item.at("node"),
                         .model = full_path(folder / item.at("model").get<std::string>()).string()});
    }
    return entries;
  } catch (const nlohmann::json::exception& error) {
    throw Error(file + ": not a baseline file: " + error.what());
  }
}

std::string write_baseline(const std::vector<Report>& reports, const std::string& file) {
  const fs::path folder = full_path(file).parent_path();
  nlohmann::ordered_json json = {{"schema", kSchema}, {"findings", nlohmann::ordered_json::array()}};
  for (const Report& report : reports) {
    for (const Alarm& alarm : report.alarms) {
      if (!alarm.counts()) continue;
      json["findings"].push_back({{"fingerprint", alarm.fingerprint},
                                  {"rule", alarm.rule->code},
                                  {"node", alarm.place.name()},
                                  {"model", full_path(report.model).lexically_proximate(folder).generic_string()}});
    }
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace finity
