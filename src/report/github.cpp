// Workflow commands of GitHub Actions: annotations beside the file or the Python line.
#include "report/words.h"

namespace finity {

namespace {

std::string replaced(std::string_view text, bool property) {
  std::string result;
  for (const char c : text) {
    if (c == '%') result += "%25";
    else if (c == '\r') result += "%0D";
    else if (c == '\n') result += "%0A";
    else if (property && c == ':') result += "%3A";
    else if (property && c == ',') result += "%2C";
    else result += c;
  }
  return result;
}

std::string command(std::string_view level, const std::string& file, int line, std::string_view title,
                    std::string_view text) {
  return "::" + std::string(level) + " file=" + replaced(file, true) + ",line=" + std::to_string(line) +
         ",title=" + replaced(title, true) + "::" + replaced(text, false) + "\n";
}

std::string_view level(const Alarm& alarm) {
  if (alarm.verdict == Verdict::unknown) return "notice";
  return alarm.verdict == Verdict::confirmed || alarm.certain ? "error" : "warning";
}

std::string annotation(const Report& report, const AlarmGroup& entry) {
  const Place& place = entry.head->place;
  std::string text = message(*entry.head);
  if (!entry.others.empty()) text += " (" + others_text(entry) + ")";
  const bool python = place.source_line > 0;
  return command(level(*entry.head), python ? place.source_file : report.model, python ? place.source_line : 1,
                 rule_title(*entry.head->rule), text);
}

}  // namespace

std::string github_report(const CheckResult& result) {
  std::string text;
  for (const Report& report : result.reports) {
    if (!report.error.empty()) {
      text += command("error", report.model, 1, "finity could not check this model", report.error);
      continue;
    }
    const std::vector<AlarmGroup> groups = group(report);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (result.max_findings != 0 && i >= result.max_findings) {
        text += command("notice", report.model, 1, "finity",
                        counted(groups.size() - i, "more finding") + " not shown (--max-findings 0 shows all)");
        break;
      }
      text += annotation(report, groups[i]);
    }
    text += printable(report.model) + ": " + summary_line(report) + "\n";
  }
  for (const std::string& warning : result.warnings) {
    text += "::warning title=finity::" + replaced(warning, false) + "\n";
  }
  return text;
}

}  // namespace finity
