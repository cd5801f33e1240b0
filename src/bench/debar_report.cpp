#include "bench/debar_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/debar_graphs.h"
#include "bench/table.h"

namespace finity {

namespace {

constexpr double kMega = 1 << 20;

std::string megabytes(std::size_t bytes) { return fixed(static_cast<double>(bytes) / kMega, 0); }

std::string count_text(std::int64_t count) {
  if (count >= 10'000'000) return std::to_string(count / 1'000'000) + "M";
  if (count >= 1'000'000) return fixed(static_cast<double>(count) / 1e6) + "M";
  if (count >= 10'000) return fixed(static_cast<double>(count) / 1e3, 1) + "K";
  return std::to_string(count);
}

Cells score_cells(const DebarScore& score, bool labelled) {
  if (!labelled) return {"", "", "", "", ""};
  return {std::to_string(score.true_positives), std::to_string(score.true_negatives),
          std::to_string(score.false_positives), std::to_string(score.false_negatives), fixed(score.accuracy(), 1)};
}

void append(Cells& to, const Cells& from) { to.insert(to.end(), from.begin(), from.end()); }

// What the paper says of a subject: true and false positives, true negatives.
std::string paper_text(const DebarSubject& subject) {
  const DebarPublished* paper = find_debar_published(subject.name);
  if (paper == nullptr) return "";
  return std::to_string(paper->true_positives) + "/" + std::to_string(paper->true_negatives) + "/" +
         std::to_string(paper->false_positives) + " " + fixed(paper->seconds, 1) + " s";
}

bool has_published(const DebarReport& report) {
  return std::ranges::any_of(report.subjects, [](const DebarSubject& s) { return !paper_text(s).empty(); });
}

// The setting that the table of graphs shows in full: the strongest combination that was run.
std::size_t main_setting(const DebarReport& report) {
  const auto found = std::ranges::find(report.settings, DebarSetting().name(), &DebarSetting::name);
  return found == report.settings.end() ? 0 : static_cast<std::size_t>(found - report.settings.begin());
}

const DebarResult* result_at(const DebarReport& report, std::size_t setting, std::size_t subject) {
  if (setting >= report.results.size() || subject >= report.results[setting].size()) return nullptr;
  return &report.results[setting][subject];
}

Cells header(const DebarReport& report) {
  Cells cells = {"graph", "nodes", "params", "sites", "proved", "possible", "unknown",
                 "TP",    "TN",    "FP",     "FN",    "acc.",   "CPU s",    "MB"};
  for (std::size_t i = 0; i < report.settings.size(); ++i) {
    if (i != main_setting(report)) cells.push_back(report.settings[i].name());
  }
  if (has_published(report)) cells.push_back("paper: TP/TN/FP");
  return cells;
}

Cells other_cells(const DebarReport& report, std::size_t subject) {
  Cells cells;
  for (std::size_t i = 0; i < report.settings.size(); ++i) {
    if (i == main_setting(report)) continue;
    const DebarResult* result = result_at(report, i, subject);
    std::string text;
    if (result != nullptr && result->error.empty()) {
      text = std::to_string(result->count(Verdict::proved)) + (result->complete ? "" : " (stopped)");
    }
    cells.push_back(std::move(text));
  }
  return cells;
}

Cells row(const DebarReport& report, std::size_t subject) {
  const DebarSubject& of = report.subjects[subject];
  const DebarResult* result = result_at(report, main_setting(report), subject);
  if (result == nullptr) return {of.name, "not run"};
  if (!result->error.empty()) return {of.name, result->error};
  Cells cells = {of.name,
                 std::to_string(result->nodes),
                 count_text(result->parameters),
                 std::to_string(result->sites.size()),
                 std::to_string(result->count(Verdict::proved)),
                 std::to_string(result->count(Verdict::possible)),
                 std::to_string(result->count(Verdict::unknown))};
  append(cells, score_cells(score(of, *result), of.labelled));
  append(cells, {fixed(result->seconds), megabytes(result->peak_bytes) + (result->complete ? "" : " (stopped)")});
  append(cells, other_cells(report, subject));
  if (has_published(report)) cells.push_back(paper_text(of));
  return cells;
}

std::vector<Cells> graph_table(const DebarReport& report) {
  std::vector<Cells> lines = {header(report)};
  for (std::size_t i = 0; i < report.subjects.size(); ++i) lines.push_back(row(report, i));
  return lines;
}

// The accuracy that the paper prints for all its subjects under a setting like this; "" when there is none.
std::string paper_accuracy(const DebarSetting& setting) {
  const DebarPublished& total = *find_debar_published("Total");
  const auto accuracy = [&](int negatives, int positives) {
    const int right = total.true_positives + negatives;
    return fixed(100.0 * right / (right + positives), 1);
  };
  // Points less than with both, as the paper's text has them.
  constexpr double kWithoutInputs = 6.2;
  constexpr double kWithoutParameters = 6.4;
  constexpr double kWithBoth = 93.0;
  if (setting.compat) return "";
  if (!setting.input_ranges) return fixed(kWithBoth - kWithoutInputs, 1);
  if (!setting.parameter_ranges) return fixed(kWithBoth - kWithoutParameters, 1);
  if (setting.tensor == TensorAbstraction::partition) {
    return setting.affine ? accuracy(total.true_negatives, total.false_positives)
                          : accuracy(total.interval_negatives, total.interval_positives);
  }
  if (setting.tensor == TensorAbstraction::smash && setting.affine) {
    return accuracy(total.smash_negatives, total.smash_positives);
  }
  return "";
}

std::vector<Cells> setting_table(const DebarReport& report) {
  std::vector<Cells> lines = {{"setting", "graphs", "failed", "stopped", "sites", "proved", "possible", "unknown", "TP",
                               "TN", "FP", "FN", "acc.", "CPU s", "most MB", "paper's acc., its 57 graphs"}};
  const bool labelled = std::ranges::any_of(report.subjects, &DebarSubject::labelled);
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const DebarReport::Sum sum = report.sum(i);
    Cells cells = {report.settings[i].name()};
    for (const std::size_t n :
         {sum.checked, sum.failed, sum.stopped, sum.sites, sum.proved, sum.possible, sum.unknown}) {
      cells.push_back(std::to_string(n));
    }
    append(cells, score_cells(sum.score, labelled));
    append(cells, {fixed(sum.seconds), megabytes(sum.peak_bytes), paper_accuracy(report.settings[i])});
    lines.push_back(std::move(cells));
  }
  return lines;
}

// One line per graph and setting.
std::vector<Cells> long_table(const DebarReport& report) {
  std::vector<Cells> lines = {{"graph",      "tensor",     "numeric", "input ranges", "parameter ranges", "compat",
                               "nodes",      "parameters", "sites",   "proved",       "possible",         "unknown",
                               "TP",         "TN",         "FP",      "FN",           "accuracy",         "cpu seconds",
                               "peak bytes", "stopped",    "error"}};
  const auto yes = [](bool truth) { return std::string(truth ? "yes" : "no"); };
  for (const std::vector<DebarResult>& results : report.results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const DebarResult& result = results[i];
      Cells cells = {result.subject,
                     std::string(name(result.setting.tensor)),
                     result.setting.affine ? "affine" : "interval",
                     yes(result.setting.input_ranges),
                     yes(result.setting.parameter_ranges),
                     yes(result.setting.compat),
                     std::to_string(result.nodes),
                     std::to_string(result.parameters),
                     std::to_string(result.sites.size()),
                     std::to_string(result.count(Verdict::proved)),
                     std::to_string(result.count(Verdict::possible)),
                     std::to_string(result.count(Verdict::unknown))};
      append(cells, score_cells(score(report.subjects[i], result), report.subjects[i].labelled));
      append(cells, {fixed(result.seconds, 3), std::to_string(result.peak_bytes), yes(!result.complete), result.error});
      lines.push_back(std::move(cells));
    }
  }
  return lines;
}

std::string summary(const DebarReport& report) {
  std::string text;
  const std::size_t strongest = main_setting(report);
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    if (i == strongest || report.settings[i].compat) continue;
    const std::vector<std::string> lost = report.lost(i, strongest);
    if (lost.empty()) continue;
    text += "proved by '" + report.settings[i].name() + "' alone, not by '" + report.settings[strongest].name() +
            "': " + std::to_string(lost.size()) + " sites, " + lost.front() + " among them\n";
  }
  return text;
}

nlohmann::json site_json(const DebarSubject& subject, const DebarSite& site) {
  const auto label = subject.labels.sites.find(site.node);
  nlohmann::json json = {{"node", site.node}, {"op", site.op}, {"verdict", name(site.verdict)}};
  if (!site.rule.empty()) json.update({{"rule", site.rule}, {"seen", site.seen}});
  if (label != subject.labels.sites.end()) json["label"] = name(label->second);
  return json;
}

nlohmann::json result_json(const DebarSubject& subject, const DebarResult& result) {
  nlohmann::json json = {{"graph", result.subject},
                         {"tensor", name(result.setting.tensor)},
                         {"numeric", result.setting.affine ? "affine" : "interval"},
                         {"input_ranges", result.setting.input_ranges},
                         {"parameter_ranges", result.setting.parameter_ranges},
                         {"compat", result.setting.compat},
                         {"nodes", result.nodes},
                         {"parameters", result.parameters},
                         {"cpu_seconds", result.seconds},
                         {"peak_bytes", result.peak_bytes},
                         {"complete", result.complete},
                         {"error", result.error},
                         {"sites", nlohmann::json::array()}};
  for (const DebarSite& site : result.sites) json["sites"].push_back(site_json(subject, site));
  if (subject.labelled) {
    const DebarScore own = score(subject, result);
    json["score"] = {{"tp", own.true_positives},
                     {"tn", own.true_negatives},
                     {"fp", own.false_positives},
                     {"fn", own.false_negatives},
                     {"accuracy", own.accuracy()}};
  }
  return json;
}

std::string debar_json(const DebarReport& report) {
  nlohmann::json json = {{"schema", "finity-bench/1"},
                         {"benchmark", "debar"},
                         {"limit", report.limit},
                         {"results", nlohmann::json::array()}};
  for (const std::vector<DebarResult>& results : report.results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      json["results"].push_back(result_json(report.subjects[i], results[i]));
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

DebarReport::Sum DebarReport::sum(std::size_t setting) const {
  Sum sum;
  for (std::size_t i = 0; i < results[setting].size(); ++i) {
    const DebarResult& result = results[setting][i];
    ++(result.error.empty() ? sum.checked : sum.failed);
    sum.stopped += result.complete ? 0 : 1;
    sum.sites += result.sites.size();
    sum.proved += result.count(Verdict::proved);
    sum.possible += result.count(Verdict::possible);
    sum.unknown += result.count(Verdict::unknown);
    sum.score.add(score(subjects[i], result));
    sum.seconds += result.seconds;
    sum.peak_bytes = std::max(sum.peak_bytes, result.peak_bytes);
  }
  return sum;
}

std::vector<std::string> DebarReport::lost(std::size_t weaker, std::size_t stronger) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(results[weaker].size(), results[stronger].size()); ++i) {
    const std::vector<DebarSite>& weak = results[weaker][i].sites;
    const std::vector<DebarSite>& strong = results[stronger][i].sites;
    for (std::size_t site = 0; site < std::min(weak.size(), strong.size()); ++site) {
      if (weak[site].verdict == Verdict::proved && strong[site].verdict != Verdict::proved) {
        names.push_back(subjects[i].name + ": " + weak[site].node);
      }
    }
  }
  return names;
}

std::string debar_in_format(const DebarReport& report, std::string_view format) {
  if (format == "text") {
    return table_text(graph_table(report)) + "\n" + table_text(setting_table(report)) + summary(report);
  }
  if (format == "markdown") {
    const std::string more = summary(report);
    return table_markdown(graph_table(report)) + "\n" + table_markdown(setting_table(report)) +
           (more.empty() ? "" : "\n" + more);
  }
  if (format == "csv") return table_csv(long_table(report));
  if (format == "json") return debar_json(report);
  throw Error("--format: '" + std::string(format) + "' is none of text, csv, markdown, json");
}

}  // namespace finity
