// testdata/ranges/*.txt: the range of every result in the cases of testdata/ops and testdata/check, as recorded. A
// range that grew makes somebody's proof an alarm, one that shrank may be wrong; both are to be seen in a diff:
// FINITY_UPDATE=1 rewrites the records. The float operands of an op case become small ranges around its elements; its
// integer operands are once inputs like them, once constants.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "check/analyze.h"
#include "check/verify.h"
#include "formats/text/cases.h"
#include "support/around.h"
#include "support/check_case.h"
#include "support/check_model.h"
#include "support/recorded.h"
#include "support/support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns = 8;

// ---- cases -----------------------------------------------------------------------

Inputs inputs_of(const OpCase& test) {
  Inputs inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs[test.graph.value(test.graph.main().inputs[i]).name] = test.inputs[i];
  }
  return inputs;
}

// No element may leave its range. Inputs that cannot be drawn say nothing.
void expect_sound(const OpCase& test, const Types& types, const Premises& given, const Analysis& analysis) {
  VerifyReport report;
  Rng rng(1);
  try {
    for (int number = 0; number < kRuns; ++number) {
      verify_run(test.graph, analysis, draw_inside(test.graph, types, given, rng, number),
                 static_cast<std::uint64_t>(number), report);
    }
  } catch (const Error& error) {
    const bool escaped = std::string_view(error.what()).starts_with("verification failed: node");
    if (escaped) ADD_FAILURE() << test.name << ": " << error.what();
  }
}

// A loop that waits for a number to grow does not end when it is infinite; scales of Resize are sizes.
bool may_run_long(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return node.op_type == "Loop" || node.op_type == "Resize"; });
}

// The outputs and what is possible when NaN or infinities come in too.
std::string in_short(const Graph& graph, const Analysis& analysis) {
  std::string text;
  for (const ValueId id : graph.main().outputs) text += " " + shown(analysis.ranges[id.at()].hull());
  for (const Finding& finding : analysis.findings) {
    if (finding.verdict != Verdict::proved) text += " " + std::string(finding.rule);
  }
  return text + "\n";
}

constexpr std::pair<const char*, Besides> kOthers[] = {
    {"with +Inf", {.pinf = true}},
    {"with -Inf", {.ninf = true}},
    {"with NaN", {.nan = true}},
    {"wide", {.spread = Spread::wide}},
    {"huge", {.spread = Spread::huge}},
    {"positive", {.spread = Spread::positive}},
    {"negative", {.spread = Spread::negative}},
    {"apart", {.spread = Spread::apart}},
};

std::string ranges_of(const OpCase& test, const RangeSettings& settings) {
  const Types types = infer_types(test.graph);
  const auto analyzed = [&](const Besides& besides) {
    const Premises given = premises_around(test.graph, types, inputs_of(test), settings.max_cells, besides);
    Analysis analysis = analyze(test.graph, types, given, {.ranges = settings});
    if (!besides.odd() || !may_run_long(test.graph)) expect_sound(test, types, given, analysis);
    return analysis;
  };
  std::string text = shown(test.graph, analyzed({}));
  for (const auto& [name, besides] : kOthers) {
    text += "  " + std::string(name) + in_short(test.graph, analyzed(besides));
  }
  return text;
}

// Cases that must fail say nothing about ranges. Variants of a case are recorded where they differ from it.
void add_op_cases(const std::string& text, const std::string& file, const std::string& suffix,
                  const RangeSettings& settings, Records& records) {
  for (const OpCase& test : parse_cases(text, file)) {
    if (!test.error.empty()) continue;
    const std::string ranges = ranges_of(test, settings);
    if (!records.contains(test.name) || records[test.name] != ranges) records[test.name + suffix] = ranges;
  }
}

Records op_records(const std::string& path) {
  const std::string file = fs::path(path).filename();
  const std::string text = read_text_file(path);
  // Operands that say how become constants: `Slice(x, int64[1] {0}, ...`.
  static const std::regex kIntegers(R"(([(,] ?)((?:u?int[0-9]+|bool)\[))");
  std::string known;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool result = line.find("  expect ") == 0;
    known += (result ? line : std::regex_replace(line, kIntegers, "$1const $2")) + "\n";
  }
  Records records;
  add_op_cases(text, file, "", {}, records);
  add_op_cases(known, file, ", constants known", {}, records);
  add_op_cases(known, file, ", smashed", {.max_cells = 1}, records);
  return records;
}

Records check_records(const std::string& path) {
  Records records;
  for (const CheckCase& test : read_check_cases(path)) {
    if (!test.error.empty()) continue;  // CheckCases says so
    const CheckedModel result = check(test);
    records[test.test_name] = shown(result.graph, result.analysis);
  }
  return records;
}

// ---- the files -------------------------------------------------------------------

class RecordedRanges : public testing::TestWithParam<std::string> {};

TEST_P(RecordedRanges, AreTheSame) {
  const std::string& suite = GetParam();
  const std::size_t split = suite.find('_');
  const std::string source =
      std::string(FINITY_TESTDATA) + "/" + suite.substr(0, split) + "/" + suite.substr(split + 1) + ".txt";
  const Records now = suite.starts_with("ops_") ? op_records(source) : check_records(source);
  expect_as_recorded(suite, now);
}

std::vector<std::string> suites() {
  std::vector<std::string> names;
  for (const std::string folder : {"ops", "check"}) {
    for (const auto& entry : fs::directory_iterator(std::string(FINITY_TESTDATA) + "/" + folder)) {
      if (entry.path().extension() == ".txt") names.push_back(folder + "_" + entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Text, RecordedRanges, testing::ValuesIn(suites()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace finity
