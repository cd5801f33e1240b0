// Goldens of every format: testdata/report/*. FINITY_UPDATE=1 rewrites them.
#include "report/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "report/sample.h"
#include "report/words.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

void expect_golden(const std::string& file, const std::string& actual) {
  const std::string path = testdata_folder() + "/report/" + file;
  if (std::getenv("FINITY_UPDATE") != nullptr) write_file_atomically(path, actual);
  else EXPECT_EQ(actual, read_text_file(path)) << path;
}

// What people read. SARIF and JSON have tests of what their fields mean.
TEST(Report, FormatsMatchTheirGoldens) {
  for (const ReportFormat& format : report_formats()) {
    if (format.name == "json" || format.name == "sarif") continue;
    expect_golden("sample." + std::string(format.name), format.write(sample::result()));
  }
}

TEST(Report, JsonHoldsAllThatTheTextSays) {
  const nlohmann::json json = nlohmann::json::parse(json_report(sample::result()));
  EXPECT_EQ(json.at("schema"), "finity-check/1");
  EXPECT_EQ(json.at("finity"), "1.2.3");
  EXPECT_EQ(json.at("exit_code"), 2);
  EXPECT_EQ(json.at("fail_on"), "unknown");
  ASSERT_EQ(json.at("models").size(), 2U);
  const Report report = sample::result().reports.front();
  const nlohmann::json& model = json.at("models")[0];
  EXPECT_EQ(model.at("summary"), summary_line(report));
  EXPECT_EQ(model.at("assumptions").size(), report.assumptions.size());
  EXPECT_EQ(model.at("keep_nodes").at("nodes").size(), 2U);
  ASSERT_EQ(model.at("findings").size(), report.alarms.size());
  for (std::size_t i = 0; i < report.alarms.size(); ++i) {
    const nlohmann::json& finding = model.at("findings")[i];
    EXPECT_EQ(finding.at("rule"), report.alarms[i].rule->code);
    EXPECT_EQ(finding.at("verdict"), name(report.alarms[i].verdict));
    EXPECT_EQ(finding.at("fingerprint"), report.alarms[i].fingerprint);
    EXPECT_EQ(finding.at("path").size(), report.alarms[i].path.size());
  }
  EXPECT_TRUE(json.at("models")[1].contains("error"));
}

Report plain(std::size_t nodes, std::size_t modelled) {
  Report report;
  report.model = "m.onnx";
  report.counts = {.nodes = nodes, .modelled = modelled, .sites = 3, .proved = 3};
  report.not_checked.nodes = nodes - modelled;
  return report;
}

TEST(Summary, AllProvedOnlyWhenEverythingWasChecked) {
  EXPECT_TRUE(summary_line(plain(5, 5)).starts_with("all proved; 5 of 5 nodes modelled; 3 sites: 3 proved"));
  Report part = plain(60, 0);
  part.not_checked.why = {"BeamSearch"};
  EXPECT_TRUE(summary_line(part).starts_with("NOT CHECKED: 60 of 60 nodes (BeamSearch); ")) << summary_line(part);
  EXPECT_EQ(summary_line(part).find("all proved"), std::string::npos);
  EXPECT_EQ(outcome_of(part), Outcome::not_checked);
  Report stopped = plain(5, 5);
  stopped.complete = false;
  EXPECT_TRUE(summary_line(stopped).starts_with("NOT CHECKED: ")) << summary_line(stopped);
  Report accepted = plain(5, 5);
  accepted.counts.accepted = accepted.counts.possible = 1;
  accepted.counts.proved = 2;
  EXPECT_TRUE(summary_line(accepted).starts_with("nothing new; ")) << summary_line(accepted);
}

TEST(Summary, GuessesAndWhatIsCoveredAreInTheLine) {
  Report report = plain(5, 5);
  report.guesses = {"x in [-50, 50]"};
  report.covered = {"forward pass", "weights as in the file"};
  EXPECT_EQ(summary_line(report),
            "all proved, assuming x in [-50, 50] (guessed); 5 of 5 nodes modelled; 3 sites: 3 proved; forward pass, "
            "weights as in the file");
  report.guesses.resize(4, "y in [0, 1]");
  EXPECT_TRUE(summary_line(report).starts_with("all proved, assuming 4 guessed ranges; ")) << summary_line(report);
}

TEST(Report, WhatWasNotVerifiedIsNotGreen) {
  CheckResult result;
  result.reports.push_back(plain(5, 5));
  EXPECT_EQ(exit_code(result), 0);
  result.reports[0].unverified = "no run came to its end";
  EXPECT_EQ(exit_code(result), 1);
  EXPECT_EQ(outcome_of(result.reports[0]), Outcome::unknown);
}

TEST(Report, ColoursAreOnlyColours) {
  CheckResult result = sample::result();
  const std::string plain = text_report(result);
  result.colour = true;
  std::string coloured = text_report(result);
  EXPECT_NE(coloured, plain);
  for (std::size_t at = 0; (at = coloured.find('\x1b')) != std::string::npos;) {
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  }
  EXPECT_EQ(coloured, plain);
}

TEST(Report, FewFindingsArePrintedUnlessAllAreAskedFor) {
  CheckResult result = sample::result();
  result.max_findings = 1;
  EXPECT_NE(text_report(result).find("5 more findings not shown"), std::string::npos) << text_report(result);
  EXPECT_NE(github_report(result).find("5 more findings not shown"), std::string::npos);
  EXPECT_NE(markdown_report(result).find("5 more findings not shown"), std::string::npos);
  result.max_findings = 0;
  EXPECT_EQ(text_report(result).find("not shown"), std::string::npos);
}

TEST(Report, NothingPrintedBreaksALine) {
  const std::string text = text_report(sample::result());
  EXPECT_EQ(text.find("ist\n1"), std::string::npos);
  const std::string github = github_report(sample::result());
  EXPECT_NE(github.find("file=bad|file%2C 100%25.onnx"), std::string::npos) << github;
  EXPECT_NE(markdown_report(sample::result()).find("tw\\|ist"), std::string::npos);
}

TEST(Report, ExitCodes) {
  CheckResult result = sample::result();
  EXPECT_EQ(exit_code(result), 2);
  result.reports.pop_back();
  for (const Verdict fail_on : {Verdict::confirmed, Verdict::possible, Verdict::unknown}) {
    result.fail_on = fail_on;
    EXPECT_EQ(exit_code(result), 1);
  }
  std::vector<Alarm>& alarms = result.reports.front().alarms;
  std::erase_if(alarms, [](const Alarm& alarm) { return alarm.verdict == Verdict::confirmed; });
  result.fail_on = Verdict::confirmed;
  EXPECT_EQ(exit_code(result), 0);
  std::erase_if(alarms, [](const Alarm& alarm) { return alarm.verdict == Verdict::possible; });
  result.fail_on = Verdict::possible;
  EXPECT_EQ(exit_code(result), 0);
  result.fail_on = Verdict::unknown;
  EXPECT_EQ(exit_code(result), 1);
  for (Alarm& alarm : alarms) alarm.accepted = Acceptance::baseline;
  EXPECT_EQ(exit_code(result), 0);
  result.reports.front().complete = false;
  EXPECT_EQ(exit_code(result), 1);
  result.interrupted = true;
  EXPECT_EQ(exit_code(result), 2);
}

TEST(Words, Numbers) {
  EXPECT_EQ(number_text(0.1F, DType::float32), "0.1");
  EXPECT_EQ(number_text(static_cast<double>(0.1F), DType::float64), "0.10000000149011612");
  EXPECT_EQ(number_text(-0.0, DType::float32), "0");
  EXPECT_EQ(number_text(100000, DType::float32), "100000");
  EXPECT_EQ(number_text(65504, DType::float16), "65504");
  EXPECT_EQ(number_text(max_finite(DType::float32), DType::float32), "3.4028235e+38");
  EXPECT_EQ(number_text(max_finite(DType::bfloat16), DType::bfloat16), "3.39e+38");
  EXPECT_EQ(number_text(min_subnormal(DType::float16), DType::float16), "6e-08");
}

TEST(Words, Ranges) {
  EXPECT_EQ(range_text(top(DType::float32), DType::float32), "any finite float32 or +Inf or -Inf or NaN");
  EXPECT_EQ(range_text(any_finite(DType::float32), DType::float32), "any finite float32");
  EXPECT_EQ(range_text(top(DType::float32), DType::undefined), "anything");
  EXPECT_EQ(range_text({.lo = -1, .hi = 1, .nonzero = true}, DType::float32), "[-1, 1] without 0");
  EXPECT_EQ(range_text(point(3), DType::int64), "3");
  EXPECT_EQ(range_text(empty_range(), DType::float32), "nothing");
  EXPECT_EQ(unsafe_text({{-kInf, -1.5}, {0, 0}, {2, 3}, {4, kInf}}, DType::float32), "<= -1.5 or 0 or 2 to 3 or >= 4");
  EXPECT_EQ(counted(1, "site"), "1 site");
  EXPECT_EQ(counted(1234567, "site"), "1,234,567 sites");
}

}  // namespace
}  // namespace finity
