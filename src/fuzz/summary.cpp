#include "fuzz/summary.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "fuzz/ledger.h"
#include "store/database.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;

FindingLine line_of(const Row& row) {
  return {.id = as_int(row[0]),
          .model = as_int(row[1]),
          .steps = as_int(row[2]),
          .hits = as_int(row[3]),
          .optimised = as_int(row[4]) != 0,
          .proven = as_int(row[5]) != 0,
          .backend = as_text(row[6]),
          .symptom = as_text(row[7]),
          .chain = as_text(row[8]),
          .versions = as_text(row[9]),
          .known = as_text(row[10]),
          .folder = as_text(row[11]),
          .text = as_text(row[12])};
}

std::int64_t median_steps(const Summary& summary) {
  std::vector<std::int64_t> steps;
  for (const FindingLine& finding : summary.findings) steps.push_back(finding.steps);
  if (steps.empty()) return 0;
  std::ranges::sort(steps);
  return steps[steps.size() / 2];
}

std::string title(const FindingLine& finding) {
  return finding.symptom + " in " + finding.chain + (finding.optimised ? ", optimised" : "");
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '&') result += "&amp;";
    else if (c == '"') result += "&quot;";
    else result += c;
  }
  return result;
}

// The chain as boxes in a row.
std::string drawn(const std::string& chain) {
  std::vector<std::string> ops;
  for (std::size_t at = 0; at < chain.size();) {
    const std::size_t end = std::min(chain.find(" -> ", at), chain.size());
    ops.push_back(chain.substr(at, end - at));
    at = end + 4;
  }
  std::ostringstream boxes;
  double x = 1;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double width = 12 + 7.2 * static_cast<double>(ops[i].size());
    if (i > 0) {
      boxes << "<path d=\"M" << x << " 13h14m-4-3l4 3-4 3\"/>";
      x += 15;
    }
    boxes << "<rect x=\"" << x << "\" y=\"2\" rx=\"3\" height=\"22\" width=\"" << width << "\"/><text x=\""
          << x + width / 2 << "\" y=\"17\">" << escaped(ops[i]) << "</text>";
    x += width + 1;
  }
  std::ostringstream out;
  out << "<svg viewBox=\"0 0 " << x + 1 << " 26\" width=\"" << x + 1 << "\">" << boxes.str() << "</svg>";
  return out.str();
}

std::string curve(const std::vector<std::int64_t>& points) {
  if (points.size() < 2) return {};
  const double most = static_cast<double>(std::max<std::int64_t>(points.back(), 1));
  std::ostringstream out;
  out << "<svg class=\"curve\" viewBox=\"-2 -2 404 104\" width=\"404\" height=\"104\"><polyline points=\"";
  for (std::size_t i = 0; i < points.size(); ++i)
    out << 400.0 * static_cast<double>(i) / static_cast<double>(points.size() - 1) << ","
        << 100 - 100 * static_cast<double>(points[i]) / most << " ";
  out << "\"/></svg>";
  return out.str();
}

constexpr const char* kStyle =
    "body{font:15px/1.4 sans-serif;margin:2em auto;max-width:70em;padding:0 "
    "1em;color:#222}table{border-collapse:collapse;"
    "width:100%;table-layout:fixed}td svg{max-width:100%}td{overflow-wrap:anywhere}td,th{border-bottom:1px solid "
    "#ddd;padding:.4em;text-align:left;vertical-align:top}svg{fill:none;stroke:#567}"
    "svg text{fill:#222;stroke:none;font-size:12px;text-anchor:middle}.new{font-weight:bold}.curve{background:#f6f6f6}";

std::unique_ptr<Database> opened_for_reading(const std::string& where) {
  if (is_server(where)) return open_postgresql(where);
  const fs::path path = fs::path(where) / kLedgerFile;
  if (fs::is_regular_file(path)) return open_sqlite(path.string());
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(where, ignored)) {
    if (entry.path().filename().string().starts_with("segment-"))
      throw Error(where + ": holds segments of shards; run finity fuzz merge " + where + " first");
  }
  throw Error(where + ": holds no campaign (" + kLedgerFile + ")");
}

}  // namespace

Summary read_summary(const std::string& where) {
  const std::unique_ptr<Database> opened = opened_for_reading(where);
  Database& database = *opened;
  Summary summary;
  const std::vector<Row> run = database.query("SELECT value FROM run WHERE name = 'configuration'");
  if (run.empty()) throw Error("there is no campaign in the database");
  summary.configuration = as_text(run[0][0]);
  const Row sums =
      database.query("SELECT SUM(runs), SUM(steps), SUM(elements), SUM(undecided), SUM(refused) FROM execution")[0];
  summary.models = as_int(database.query("SELECT COUNT(*) FROM model")[0][0]);
  summary.runs = as_int(sums[0]);
  summary.steps = as_int(sums[1]);
  summary.elements = as_int(sums[2]);
  summary.undecided = as_int(sums[3]);
  summary.refused = as_int(sums[4]);
  for (const Row& row :
       database.query("SELECT id, model, steps, hits, optimised, proven, backend, symptom, chain, versions, known, "
                      "folder, text FROM finding ORDER BY id"))
    summary.findings.push_back(line_of(row));
  for (const Row& row : database.query("SELECT symptom || CASE proven WHEN 1 THEN '' ELSE ' (small)' END, COUNT(*) "
                                       "FROM complaint GROUP BY 1 ORDER BY 1"))
    summary.symptoms.emplace_back(as_text(row[0]), as_int(row[1]));
  for (const Row& row : database.query("SELECT kind, COUNT(*) FROM coverage GROUP BY kind ORDER BY kind"))
    summary.coverage.emplace_back(as_text(row[0]), as_int(row[1]));
  for (std::int64_t part = 0; part <= 20 && summary.models > 0; ++part)
    summary.cells_over_time.push_back(
        as_int(database.query("SELECT COUNT(*) FROM coverage WHERE first <= ?", {summary.models * part / 20})[0][0]));
  return summary;
}

std::string as_plain_text(const Summary& summary) {
  std::ostringstream out;
  out << summary.configuration << "\n"
      << summary.models << " models, " << summary.runs << " runs, " << summary.steps << " layer checks, "
      << summary.elements << " elements (" << summary.undecided << " undecided), " << summary.refused
      << " samples refused\n";
  for (const auto& [symptom, count] : summary.symptoms) out << "  " << symptom << ": " << count << "\n";
  out << "coverage:";
  for (const auto& [kind, cells] : summary.coverage) out << " " << kind << " " << cells;
  out << "\n" << summary.findings.size() << " findings, median " << median_steps(summary) << " nodes\n";
  for (const FindingLine& f : summary.findings) {
    out << "\n"
        << f.folder << ": " << f.backend << ": " << title(f) << (f.proven ? "" : " (small)") << "\n  " << f.text
        << "\n";
    if (!f.versions.empty()) out << "  versions: " << f.versions << "\n";
    out << "  " << (f.known.empty() ? "not among the known faults" : "known: " + f.known) << "\n";
  }
  return out.str();
}

std::string as_json(const Summary& summary) {
  nlohmann::json findings = nlohmann::json::array();
  for (const FindingLine& f : summary.findings) {
    findings.push_back({{"folder", f.folder},
                        {"backend", f.backend},
                        {"symptom", f.symptom},
                        {"ops", f.chain},
                        {"optimised", f.optimised},
                        {"proven", f.proven},
                        {"nodes", f.steps},
                        {"model", f.model},
                        {"seen", f.hits},
                        {"versions", f.versions},
                        {"known", f.known},
                        {"text", f.text}});
  }
  nlohmann::json coverage = nlohmann::json::object(), complaints = nlohmann::json::object();
  for (const auto& [kind, cells] : summary.coverage) coverage[kind] = cells;
  for (const auto& [symptom, count] : summary.symptoms) complaints[symptom] = count;
  const nlohmann::json all = {{"campaign", summary.configuration},
                              {"models", summary.models},
                              {"runs", summary.runs},
                              {"layer_checks", summary.steps},
                              {"elements", summary.elements},
                              {"undecided", summary.undecided},
                              {"refused", summary.refused},
                              {"complaints", complaints},
                              {"coverage", coverage},
                              {"coverage_over_time", summary.cells_over_time},
                              {"median_nodes", median_steps(summary)},
                              {"findings", findings}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_page(const Summary& summary) {
  std::ostringstream out;
  out << "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>finity fuzz</title><style>" << kStyle
      << "</style></head><body><h1>" << summary.findings.size() << " findings in " << summary.models
      << " models</h1><p>" << escaped(summary.configuration) << "</p><p>" << summary.runs << " runs, " << summary.steps
      << " layer checks, " << summary.elements << " elements, " << summary.undecided
      << " of them undecided.</p><h2>Coverage over models</h2>" << curve(summary.cells_over_time) << "<ul>";
  for (const auto& [kind, cells] : summary.coverage) out << "<li>" << escaped(kind) << ": " << cells << "</li>";
  out << "</ul><h2>Findings</h2><table><tr><th style=\"width:32%\">model</th><th "
         "style=\"width:36%\">what</th><th>versions"
         "</th><th>known</th></tr>";
  for (const FindingLine& f : summary.findings) {
    out << "<tr><td>" << drawn(f.chain) << "<br><a href=\"" << escaped(f.folder) << "/README.md\">" << escaped(f.folder)
        << "</a></td><td>" << escaped(f.backend) << ": " << escaped(f.symptom) << (f.optimised ? ", optimised" : "")
        << (f.proven ? "" : " (small)") << "<br>" << escaped(f.text.substr(0, 300)) << "</td><td>"
        << escaped(f.versions) << "</td><td"
        << (f.known.empty() ? " class=\"new\">not in the table" : ">" + escaped(f.known)) << "</td></tr>";
  }
  out << "</table></body></html>\n";
  return out.str();
}

}  // namespace finity::fuzz
