// testdata/ranges/*.txt: the range of every result in the cases of testdata/ops and testdata/check, as recorded. A
// range that grew makes somebody's proof an alarm, one that shrank may be wrong; both are to be seen in a diff:
// FINITY_UPDATE=1 rewrites the records. The float operands of an op case become small ranges around its elements; its
// integer operands are once inputs like them, once constants.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "base/atomic_file.h"
#include "check/analyze.h"
#include "check/verify.h"
#include "formats/text/cases.h"
#include "support/around.h"
#include "support/check_case.h"
#include "support/check_model.h"
#include "support/support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns = 8;
constexpr std::size_t kShownCells = 12;

// ---- ranges in words -------------------------------------------------------------

// Six digits: libraries differ in the last ones.
std::string shown(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", x);
  return text.data();
}

std::string shown(const Range& range) {
  std::string text;
  if (range.has_finite()) text = "[" + shown(range.lo) + ", " + shown(range.hi) + "]";
  if (range.nonzero) text += " nonzero";
  if (range.integer) text += " integer";
  if (range.pinf) text += " +Inf";
  if (range.ninf) text += " -Inf";
  if (range.nan) text += " NaN";
  return text.empty() ? "nothing" : text;
}

std::string shown(const AbsTensor& x) {
  std::string text;
  for (std::size_t axis = 0; axis < x.cuts.size() && x.cut(); ++axis) {
    if (x.cuts[axis].empty()) continue;
    text += "axis " + std::to_string(axis) + " at";
    for (const std::int64_t cut : x.cuts[axis]) text += " " + std::to_string(cut);
    text += "; ";
  }
  if (x.cells.size() > kShownCells) return text + shown(x.hull());
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) text += (cell == 0 ? "" : " | ") + shown(x.cells[cell]);
  return text;
}

std::string shown(const Graph& graph, const Fact& fact) {
  static constexpr std::array<const char*, 16> kKinds = {"max_of",
                                                         "at_least",
                                                         "at_most",
                                                         "at_least_abs",
                                                         "abs_of",
                                                         "at_most_inverse",
                                                         "square_sum_of",
                                                         "mean_of",
                                                         "square_of",
                                                         "mean_square_of",
                                                         "mean_square_at_least",
                                                         "row_max",
                                                         "row_sum",
                                                         "sum_of",
                                                         "max_operand",
                                                         "one_of_max"};
  std::string text = kKinds.at(static_cast<std::size_t>(fact.kind));
  if (fact.source.valid()) text += " " + graph.value(fact.source).name;
  if (fact.axes != 0) text += " axes " + std::to_string(fact.axes);
  if (!fact.aligned) text += " reduced";
  if (fact.slack != 0) text += " slack " + shown(fact.slack);
  if (fact.lost != 0) text += " lost " + shown(fact.lost);
  if (!fact.range.is_empty()) text += " " + shown(fact.range);
  if (fact.total != 0) text += " total " + std::to_string(fact.total);
  return text;
}

// How many cells are sums of symbols, and of how many.
std::string shown_forms(const AbsTensor& x) {
  std::size_t forms = 0, terms = 0;
  double error = 0;
  for (const Form& form : x.forms) {
    forms += form.valid ? 1 : 0;
    terms += form.terms.size();
    error = std::max(error, form.error);
  }
  if (forms == 0) return "";
  return "; forms " + std::to_string(forms) + " terms " + std::to_string(terms) + " error " + shown(error);
}

std::string shown(const Graph& graph, const Analysis& analysis) {
  std::string text;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (!analysis.reached[i] || !value.producer.valid()) continue;
    text += "  " + value.name + " " + shown(analysis.ranges[i]) + shown_forms(analysis.ranges[i]) + "\n";
    for (const Fact& fact : analysis.ranges[i].facts) text += "    " + shown(graph, fact) + "\n";
  }
  for (const Finding& finding : analysis.findings) {
    if (!finding.node.valid()) continue;
    const ValueId result = graph.node(finding.node).outputs.front();
    text += "  " + std::string(name(finding.verdict)) + " " + std::string(finding.rule);
    text += " of " + (result.valid() ? graph.value(result).name : "_") + "\n";
  }
  return text;
}

// ---- cases -----------------------------------------------------------------------

using Records = std::map<std::string, std::string>;  // title to the lines below it

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

// The outputs and what is possible when NaN or infinities come in too.
std::string in_short(const Graph& graph, const Analysis& analysis) {
  std::string text;
  for (const ValueId id : graph.main().outputs) text += " " + shown(analysis.ranges[id.at()].hull());
  for (const Finding& finding : analysis.findings) {
    if (finding.verdict != Verdict::proved) text += " " + std::string(finding.rule);
  }
  return text + "\n";
}

std::string ranges_of(const OpCase& test, const RangeSettings& settings) {
  const Types types = infer_types(test.graph);
  const auto analyzed = [&](const Besides& besides) {
    const Premises given = premises_around(test.graph, types, inputs_of(test), settings.max_cells, besides);
    Analysis analysis = analyze(test.graph, types, given, {.ranges = settings});
    expect_sound(test, types, given, analysis);
    return analysis;
  };
  std::string text = shown(test.graph, analyzed({}));
  text += "  with +Inf" + in_short(test.graph, analyzed({.pinf = true}));
  text += "  with -Inf" + in_short(test.graph, analyzed({.ninf = true}));
  text += "  with NaN" + in_short(test.graph, analyzed({.nan = true}));
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

Records read_records(const std::string& path) {
  Records records;
  std::istringstream in(fs::exists(path) ? read_text_file(path) : "");
  std::string title;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) records[title] += line + "\n";
    else records[title = line] = "";
  }
  return records;
}

class RecordedRanges : public testing::TestWithParam<std::string> {};

TEST_P(RecordedRanges, AreTheSame) {
  const std::string& suite = GetParam();
  const std::size_t split = suite.find('_');
  const std::string source =
      std::string(FINITY_TESTDATA) + "/" + suite.substr(0, split) + "/" + suite.substr(split + 1) + ".txt";
  const std::string path = std::string(FINITY_TESTDATA) + "/ranges/" + suite + ".txt";
  const Records now = suite.starts_with("ops_") ? op_records(source) : check_records(source);
  if (std::getenv("FINITY_UPDATE") != nullptr) {
    std::string text;
    for (const auto& [title, lines] : now) text += title + "\n" + lines;
    return write_file_atomically(path, text);
  }
  std::size_t compared = 0;
  for (const auto& [title, lines] : read_records(path)) {
    if (!now.contains(title)) continue;
    ++compared;
    EXPECT_EQ(now.at(title), lines) << suite << ": " << title
                                    << "\nif this is meant: FINITY_UPDATE=1, then read the diff of testdata/ranges";
  }
  EXPECT_GE(compared, now.size() * 4 / 5) << "run with FINITY_UPDATE=1 to record the new cases of " << source;
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
