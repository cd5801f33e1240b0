#include "report/report.h"

#include <algorithm>
#include <array>

namespace finity {

std::string_view name(Acceptance acceptance) {
  switch (acceptance) {
    case Acceptance::none: return "none";
    case Acceptance::baseline: return "baseline";
    case Acceptance::config: return "configuration";
    case Acceptance::model: return "model";
  }
  return "?";
}

bool fails(Verdict verdict, Verdict fail_on) {
  switch (verdict) {
    case Verdict::proved: return false;
    case Verdict::confirmed: return true;
    case Verdict::possible: return fail_on != Verdict::confirmed;
    case Verdict::unknown: return fail_on == Verdict::unknown;
  }
  return true;
}

namespace {

bool has_failure(const Report& report, Verdict fail_on) {
  // What was not looked at within the limits, or should have been verified and was not, is unknown.
  const bool doubtful = !report.complete || !report.unverified.empty();
  if (doubtful && fails(Verdict::unknown, fail_on)) return true;
  return std::ranges::any_of(report.alarms,
                             [&](const Alarm& alarm) { return alarm.counts() && fails(alarm.verdict, fail_on); });
}

}  // namespace

int exit_code(const CheckResult& result) {
  const auto failed = [](const Report& report) { return !report.error.empty(); };
  if (result.interrupted || std::ranges::any_of(result.reports, failed)) return 2;
  return std::ranges::any_of(result.reports, [&](const Report& report) { return has_failure(report, result.fail_on); });
}

std::span<const ReportFormat> report_formats() {
  static constexpr std::array kFormats = {
      ReportFormat{"text", ".txt", text_report}, ReportFormat{"json", ".json", json_report},
      ReportFormat{"sarif", ".sarif", sarif_report}, ReportFormat{"github", "", github_report},
      ReportFormat{"markdown", ".md", markdown_report}};
  return kFormats;
}

}  // namespace finity
