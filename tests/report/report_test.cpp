// Goldens of every format: testdata/report/*. FINITY_UPDATE=1 rewrites them.
#include "report/report.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/atomic_file.h"
#include "report/sample.h"
#include "report/words.h"
#include "support/support.h"

namespace finity {
namespace {

void expect_golden(const std::string& file, const std::string& actual) {
  const std::string path = FINITY_TESTDATA "/report/" + file;
  if (std::getenv("FINITY_UPDATE") != nullptr) write_file_atomically(path, actual);
  else EXPECT_EQ(actual, read_text_file(path)) << path;
}

TEST(Report, FormatsMatchTheirGoldens) {
  for (const ReportFormat& format : report_formats()) {
    expect_golden("sample." + std::string(format.name), format.write(sample::result()));
  }
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
