#include "bench/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/table.h"

namespace finity {

namespace {

// What the paper has of a strategy; null for ours.
const PublishedResult* published(const PublishedRow& row, std::string_view strategy) {
  if (strategy == "default") return &row.plain;
  if (strategy == "grist") return &row.grist;
  if (strategy == "grist-ns") return &row.grist_ns;
  return nullptr;
}

std::string result_text(int hits, int runs, double seconds) {
  return std::to_string(hits) + "/" + std::to_string(runs) + (hits > 0 ? " " + fixed(seconds) + " s" : "");
}

std::string verdict_text(const StaticVerdict& verdict) {
  return std::string(verdict.found ? "found" : "MISSED") + ", twin " +
         (verdict.repair_proved ? "proved" : "NOT proved");
}

std::string speed_up(const std::map<std::string, Tally>& tallies, const std::string& strategy) {
  const auto plain = tallies.find("default"), own = tallies.find(strategy);
  if (strategy == "default" || plain == tallies.end() || own == tallies.end()) return "";
  if (own->second.mean_paid() <= 0) return "";
  return fixed(plain->second.mean_paid() / own->second.mean_paid(), 1);
}

Cells header(const BenchReport& report) {
  Cells cells = {"bug", "family", "op", "check"};
  for (const std::string& strategy : report.strategies) {
    cells.push_back(strategy);
    if (strategy != "default" && report.totals.contains("default")) cells.push_back("faster");
    if (strategy != "auto") cells.push_back("paper");
  }
  if (std::ranges::find(report.strategies, "grist") == report.strategies.end()) cells.push_back("GRIST in the paper");
  cells.push_back("DEBAR");
  return cells;
}

Cells row_cells(const BenchReport& report, const BugRow& row) {
  const PublishedRow& paper = *find_published(row.bug->id);
  const auto paper_text = [](const PublishedResult& result) { return result_text(result.hits, 10, result.seconds); };
  Cells cells = {row.bug->id, row.bug->family, row.bug->op, verdict_text(row.verdict)};
  for (const std::string& strategy : report.strategies) {
    const auto found = row.strategies.find(strategy);
    const Tally tally = found == row.strategies.end() ? Tally{} : found->second;
    cells.push_back(tally.failed > 0 ? "could not run" : result_text(tally.hits, tally.runs, tally.mean_hit()));
    if (strategy != "default" && report.totals.contains("default")) {
      cells.push_back(speed_up(row.strategies, strategy));
    }
    if (const PublishedResult* result = published(paper, strategy)) cells.push_back(paper_text(*result));
  }
  const bool with_grist = std::ranges::find(report.strategies, "grist") != report.strategies.end();
  if (!with_grist) cells.push_back(paper_text(paper.grist));
  cells.push_back(paper.debar ? "found" : "missed");
  return cells;
}

std::vector<Cells> table(const BenchReport& report) {
  std::vector<Cells> lines = {header(report)};
  for (const BugRow& row : report.rows) lines.push_back(row_cells(report, row));
  return lines;
}

// The paper's sensitivity study: one line per bug and parameters.
std::vector<Cells> sweep_table(const BenchReport& report) {
  std::vector<Cells> lines = {{"bug", "epsilon", "switch rate", "hits", "mean seconds"}};
  std::map<std::string, std::size_t> places;
  std::vector<Tally> tallies;
  for (const BenchRun& run : report.runs) {
    const Cells key = {run.bug, fixed(run.epsilon), fixed(run.switch_rate)};
    const auto [place, fresh] = places.emplace(key[0] + "|" + key[1] + "|" + key[2], lines.size());
    if (fresh) {
      lines.push_back(key);
      tallies.emplace_back();
    }
    tallies[place->second - 1].add(run);
  }
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    lines[i + 1].push_back(std::to_string(tallies[i].hits) + "/" + std::to_string(tallies[i].runs));
    lines[i + 1].push_back(fixed(tallies[i].mean_paid()));
  }
  return lines;
}

std::vector<Cells> lines_of(const BenchReport& report) { return report.sweep ? sweep_table(report) : table(report); }

// The paper's mean over the bugs of the report, a bug that was never hit counted with half an hour.
double published_mean(const BenchReport& report, std::string_view strategy) {
  constexpr double kLimit = 1800;
  double sum = 0;
  for (const BugRow& row : report.rows) {
    const PublishedResult* result = published(*find_published(row.bug->id), strategy);
    sum += result->hits > 0 ? result->seconds : kLimit;
  }
  return report.rows.empty() ? 0 : sum / static_cast<double>(report.rows.size());
}

std::string total_line(const BenchReport& report, const std::string& strategy) {
  const Tally& tally = report.totals.at(strategy);
  std::string text = strategy + ": " + std::to_string(tally.hits) + " of " + std::to_string(tally.runs) +
                     " runs hit (" + std::to_string(tally.at_bug) + " at the bug's own operation" +
                     (tally.at_bug > 0 ? ", after " + fixed(tally.own_seconds / tally.at_bug) + " s" : "") +
                     "), mean " + fixed(tally.mean_paid()) + " s with misses counted as " + fixed(report.limit, 0) +
                     " s";
  const std::string faster = speed_up(report.totals, strategy);
  if (!faster.empty()) text += ", " + faster + " times faster than default";
  text += "; " + fixed(tally.wall_seconds / std::max(tally.runs, 1)) + " s a run on the wall";
  if (tally.confirmed < tally.hits) {
    text += "; " + std::to_string(tally.hits - tally.confirmed) + " hits were not repeated";
  }
  if (strategy != "auto") text += " (paper, 30 minutes: " + fixed(published_mean(report, strategy)) + " s)";
  return text + "\n";
}

std::string summary(const BenchReport& report) {
  std::string text;
  if (!report.sweep) {
    const std::string all = std::to_string(report.rows.size());
    std::size_t others = 0;
    for (const BugRow& row : report.rows) others += row.verdict.others.size();
    text += "check: " + std::to_string(report.found) + " of " + all + " bugs found at the right operation, " +
            std::to_string(report.repairs_proved) + " of " + all + " repaired twins proved, " + std::to_string(others) +
            " other findings, " + fixed(report.check_seconds) + " s\n";
  }
  for (const std::string& strategy : report.strategies) {
    if (report.totals.contains(strategy)) text += total_line(report, strategy);
  }
  if (!report.strategies.empty()) {
    text += "limit " + fixed(report.limit, 0) + " s of " + report.clock + " time, seeds " +
            std::to_string(report.seeds) + ", data " + report.data + "\n";
  }
  return text;
}

nlohmann::json row_json(const BugRow& row) {
  nlohmann::json json = {{"bug", row.bug->id},
                         {"family", row.bug->family},
                         {"op", row.bug->op},
                         {"rule", row.bug->rule},
                         {"nodes", row.bug->nodes},
                         {"differs", row.bug->note},
                         {"found", row.verdict.found},
                         {"twin_proved", row.verdict.repair_proved},
                         {"others", nlohmann::json::array()},
                         {"strategies", nlohmann::json::object()}};
  for (const OtherAlarm& other : row.verdict.others) {
    json["others"].push_back({{"node", other.node}, {"op", other.op}, {"rule", other.rule}, {"seen", other.seen}});
  }
  for (const auto& [strategy, tally] : row.strategies) {
    json["strategies"][strategy] = {{"runs", tally.runs},
                                    {"hits", tally.hits},
                                    {"confirmed", tally.confirmed},
                                    {"at_the_bug", tally.at_bug},
                                    {"could_not_run", tally.failed},
                                    {"mean_seconds_of_hits", tally.mean_hit()},
                                    {"mean_seconds", tally.mean_paid()},
                                    {"closest", tally.missed}};
  }
  return json;
}

nlohmann::json run_json(const BenchRun& run) { return nlohmann::json::parse(to_json_lines({run})); }

}  // namespace

void Tally::add(const BenchRun& run) {
  ++runs;
  failed += run.error.empty() ? 0 : 1;
  paid_seconds += run.hit ? run.seconds : run.limit;
  wall_seconds += run.wall_seconds;
  if (run.hit) {
    ++hits;
    confirmed += run.confirmed ? 1 : 0;
    at_bug += run.at_bug ? 1 : 0;
    own_seconds += run.own_seconds;
    hit_seconds += run.seconds;
  } else {
    missed = run.error.empty() ? run.closest : run.error;
  }
}

BenchReport bench_report(const BenchOptions& options, const std::vector<BenchRun>& runs,
                         const std::map<std::string, StaticVerdict>& verdicts) {
  BenchReport report = {
      .data = options.data, .limit = options.limit, .seeds = options.seeds, .runs = runs, .sweep = options.sweep};
  report.clock = options.clock == ClockKind::wall ? "wall" : "processor";
  for (const Strategy strategy : options.strategies) report.strategies.emplace_back(name(strategy));
  if (options.sweep) report.strategies = {std::string(name(Strategy::grist))};
  std::map<std::string, std::size_t> places;
  for (const GristBug* bug : chosen_bugs(options.only)) {
    const auto verdict = verdicts.find(bug->id);
    if (verdict == verdicts.end()) continue;
    places.emplace(bug->id, report.rows.size());
    report.rows.push_back({.bug = bug, .verdict = verdict->second});
    report.found += verdict->second.found ? 1 : 0;
    report.repairs_proved += verdict->second.repair_proved ? 1 : 0;
    report.check_seconds += verdict->second.seconds;
  }
  for (const BenchRun& run : runs) {
    report.totals[run.strategy].add(run);
    if (const auto place = places.find(run.bug); place != places.end()) {
      report.rows[place->second].strategies[run.strategy].add(run);
    }
  }
  return report;
}

std::string bench_text(const BenchReport& report) { return table_text(lines_of(report)) + "\n" + summary(report); }

std::string bench_csv(const BenchReport& report) { return table_csv(lines_of(report)); }

std::string bench_markdown(const BenchReport& report) {
  return table_markdown(lines_of(report)) + "\n" + summary(report);
}

std::string bench_json(const BenchReport& report) {
  nlohmann::json json = {{"schema", "finity-bench/1"},      {"benchmark", "grist"},
                         {"limit", report.limit},           {"clock", report.clock},
                         {"seeds", report.seeds},           {"data", report.data},
                         {"found", report.found},           {"twins_proved", report.repairs_proved},
                         {"bugs", nlohmann::json::array()}, {"runs", nlohmann::json::array()}};
  for (const BugRow& row : report.rows) json["bugs"].push_back(row_json(row));
  for (const BenchRun& run : report.runs) json["runs"].push_back(run_json(run));
  return json.dump(2) + "\n";
}

std::string bench_in_format(const BenchReport& report, std::string_view format) {
  if (format == "text") return bench_text(report);
  if (format == "csv") return bench_csv(report);
  if (format == "markdown") return bench_markdown(report);
  if (format == "json") return bench_json(report);
  throw Error("--format: '" + std::string(format) + "' is none of text, csv, markdown, json");
}

}  // namespace finity
