#include "cli/check_run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/check_model.h"
#include "cli/pool.h"
#include "report/words.h"

namespace finity {

namespace {

Known known_of(const CheckSettings& settings) {
  Known known;
  known.accept = settings.accept;
  if (settings.baseline) {
    known.baseline_file = *settings.baseline;
    known.baseline = read_baseline(*settings.baseline);
  }
  return known;
}

// Threads that an interruption leaves behind keep what they use alive.
struct Work {
  CheckPlan plan;
  std::vector<std::string> models;
  std::vector<Report> reports;
};

// A search that is interrupted ends after the run it is at, makes its report, and loses nothing it found.
constexpr double kGraceSeconds = 10;

// A declaration must speak of at least one of the models.
void refuse_unmatched(const std::vector<Report>& reports) {
  std::vector<const Report*> checked;
  for (const Report& report : reports) {
    if (report.error.empty()) checked.push_back(&report);
  }
  if (checked.empty()) return;
  for (const Unmatched& left : checked.front()->unmatched) {
    const auto lacks = [&](const Report* report) {
      return std::ranges::any_of(report->unmatched, [&](const Unmatched& other) {
        return other.declaration == left.declaration && other.name == left.name;
      });
    };
    if (!std::ranges::all_of(checked, lacks)) continue;
    throw Error(left.declaration + ": it speaks of none of the " + std::to_string(checked.size()) + " models; " +
                checked.front()->model + ": " + left.text);
  }
}

}  // namespace

CheckResult check_models(const std::vector<std::string>& models, const CheckSettings& settings) {
  Known known = known_of(settings);
  const auto work = std::make_shared<Work>(Work{plan_of(settings), models, std::vector<Report>(models.size())});
  work->plan.check.all_names_match = models.size() == 1;
  const unsigned threads = settings.jobs.value_or(std::thread::hardware_concurrency());
  const PoolOutcome outcome = run_jobs(
      models.size(), threads, [work](std::size_t i) { work->reports[i] = check_model(work->models[i], work->plan); },
      [&](std::size_t i) { return printable(models[i]); }, work->plan.confirm > 0 ? kGraceSeconds : 0);
  CheckResult result;
  result.version = FINITY_VERSION;
  result.config = settings.config;
  result.fail_on = fail_on_of(settings);
  result.max_findings = settings.max_findings.value_or(result.max_findings);
  result.interrupted = outcome.interrupted;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (outcome.finished[i]) result.reports.push_back(std::move(work->reports[i]));
    else ++result.not_checked;
  }
  if (!result.interrupted && models.size() > 1) refuse_unmatched(result.reports);
  for (Report& report : result.reports) accept_known(report, known);
  result.warnings = stale_entries(known, result.reports, settings.selection);
  return result;
}

void print_problems(const CheckResult& result) {
  for (const std::string& warning : result.warnings) {
    std::fprintf(stderr, "finity: warning: %s\n", printable(warning).c_str());
  }
  for (const Report& report : result.reports) {
    if (!report.error.empty()) std::fprintf(stderr, "finity: %s\n", printable(report.error).c_str());
  }
}

void finish_interrupted() {
  std::fflush(stdout);
  std::fprintf(stderr, "finity: interrupted\n");
  std::_Exit(2);
}

}  // namespace finity
