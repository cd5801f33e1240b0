// The summary of a job, for GITHUB_STEP_SUMMARY and merge requests.
#include <algorithm>

#include "report/words.h"

namespace finity {

namespace {

// Text inside a table cell or a paragraph: nothing in it may act as markup.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '&') result += "&amp;";
    else if (std::string_view("\\`*_{}[]()#+!|~").find(c) != std::string_view::npos) result += std::string("\\") + c;
    else result += c;
  }
  return result;
}

std::string heading(const Report& report) {
  const bool clean = outcome_of(report) == Outcome::clean;
  return "### " + escaped(report.model) + (clean ? ": clean" : "") + "\n\n";
}

std::string row(const AlarmGroup& entry) {
  const Alarm& alarm = *entry.head;
  std::string where = escaped(alarm.place.title);
  if (!alarm.place.scope.empty()) where += "<br>inside " + escaped(alarm.place.scope);
  if (alarm.place.source_line > 0) where += "<br>" + escaped(source_text(alarm.place));
  if (!entry.others.empty()) where += "<br>" + others_text(entry);
  std::string what = escaped(what_happens(alarm));
  if (!alarm.failure.what.empty()) what += "<br>" + escaped(failure_text(alarm.failure));
  if (!alarm.searched.empty()) what += "<br>" + escaped(alarm.searched);
  if (!alarm.reason.empty()) what += "<br>" + escaped(alarm.reason);
  return "| " + std::string(name(alarm.verdict)) + " | " + rule_title(*alarm.rule) + " | " + where + " | " + what +
         " | " + escaped(fix_of(alarm)) + " |\n";
}

std::string table(const CheckResult& result, const Report& report) {
  const std::vector<AlarmGroup> groups = group(report);
  if (groups.empty()) return "";
  const std::size_t most = result.max_findings == 0 ? groups.size() : std::min(groups.size(), result.max_findings);
  std::string text = "| verdict | rule | where | what | fix |\n|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < most; ++i) text += row(groups[i]);
  if (groups.size() > most) text += "\n" + counted(groups.size() - most, "more finding") + " not shown.\n";
  return text + "\n";
}

std::string details(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = "<details><summary>" + std::string(title) + "</summary>\n\n";
  constexpr std::size_t kMost = 100;
  for (std::size_t i = 0; i < std::min(lines.size(), kMost); ++i) text += "- " + escaped(lines[i]) + "\n";
  if (lines.size() > kMost) text += "- and " + with_commas(lines.size() - kMost) + " more\n";
  return text + "\n</details>\n\n";
}

std::string section(const CheckResult& result, const Report& report) {
  std::string text = heading(report);
  if (!report.error.empty()) return text + "Not checked: " + escaped(report.error) + "\n\n";
  text += table(result, report);
  text += escaped(summary_line(report)) + "\n\n";
  if (!report.verified.empty()) text += escaped(report.verified) + "\n\n";
  if (!report.unverified.empty()) text += "NOT VERIFIED: " + escaped(report.unverified) + "\n\n";
  text += details("Assumptions", report.assumptions);
  std::vector<std::string> notes;
  for (const Note& note : report.notes) notes.push_back(note.where + (note.where.empty() ? "" : ": ") + note.text);
  text += details("Notes", notes);
  if (report.block_list.proved) text += details("Nodes to keep in their own format", report.block_list.nodes);
  return text;
}

}  // namespace

std::string markdown_report(const CheckResult& result) {
  std::string text = "## finity check\n\n";
  for (const Report& report : result.reports) text += section(result, report);
  for (const std::string& warning : result.warnings) text += "Warning: " + escaped(warning) + "\n\n";
  if (result.interrupted) text += "Interrupted: " + counted(result.not_checked, "model") + " not checked.\n\n";
  return text;
}

}  // namespace finity
