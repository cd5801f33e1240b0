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
#include "check/convert.h"
#include "check/verify.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "support/around.h"
#include "support/check_case.h"
#include "support/check_model.h"
#include "support/recorded.h"
#include "support/support.h"
#include "tensor/convert.h"

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
void expect_sound(const Graph& graph, const Types& types, const Premises& given, const Analysis& analysis) {
  VerifyReport report;
  Rng rng(1);
  try {
    for (int number = 0; number < kRuns; ++number) {
      verify_run(graph, analysis, draw_inside(graph, types, given, rng, number), static_cast<std::uint64_t>(number),
                 report);
    }
  } catch (const Error& error) {
    const bool escaped = std::string_view(error.what()).starts_with("verification failed: node");
    if (escaped) ADD_FAILURE() << error.what() << "\n" << print_graph(graph);
  }
}

// What is known of the operands' shapes.
enum class Known : std::uint8_t { all, ranks, nothing };

// A loop that waits for a number to grow does not end when it is infinite; scales of Resize and Tile and integers are
// sizes; bodies declare shapes of their own.
bool needs_ordinary_inputs(const Graph& graph, bool spread) {
  const auto says_how = [&](ValueId id) { return spread && !is_float(graph.value(id).type.dtype); };
  return graph.bodies().size() > 1 || std::ranges::any_of(graph.main().inputs, says_how) ||
         std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return node.op_type == "Resize" || node.op_type == "Tile"; });
}

// ---- variants --------------------------------------------------------------------

struct Variant {
  const char* name;
  Besides besides = {};
  Known known = Known::all;
  DType as = DType::undefined;
  bool same = false;  // sums in the format itself, subnormal numbers flushed
};

constexpr Variant kVariants[] = {
    {.name = "with +Inf", .besides = {.pinf = true}},
    {.name = "with -Inf", .besides = {.ninf = true}},
    {.name = "with NaN", .besides = {.nan = true}},
    {.name = "wide", .besides = {.spread = Spread::wide}},
    {.name = "huge", .besides = {.spread = Spread::huge}},
    {.name = "positive", .besides = {.spread = Spread::positive}},
    {.name = "negative", .besides = {.spread = Spread::negative}},
    {.name = "apart", .besides = {.spread = Spread::apart}},
    {.name = "alternate", .besides = {.spread = Spread::positive, .alternate = true}},
    {.name = "alternate, negative first", .besides = {.spread = Spread::negative, .alternate = true}},
    {.name = "integers", .besides = {.integers = true}},
    {.name = "sizes unknown", .known = Known::ranks},
    {.name = "ranks unknown", .known = Known::nothing},
    {.name = "wide, sizes unknown", .besides = {.spread = Spread::wide}, .known = Known::ranks},
    {.name = "float16", .as = DType::float16},
    {.name = "float16, same", .as = DType::float16, .same = true},
    {.name = "bfloat16, huge", .besides = {.spread = Spread::huge}, .as = DType::bfloat16},
};

// The same graph whose inputs have unknown sizes, or no known rank.
Graph forgetful(const Graph& graph, Known known) {
  const std::string text = print_graph(graph, {.max_elements = -1});
  const std::size_t begin = text.find("graph "), end = text.find(" {\n", begin);
  static const std::regex kSizes(R"(\[[0-9, ]+\])"), kSize("[0-9]+");
  const std::string header = text.substr(begin, end - begin);
  std::string changed;
  auto at = header.cbegin();
  for (std::sregex_iterator it(header.begin(), header.end(), kSizes); it != std::sregex_iterator(); ++it) {
    changed.append(at, (*it)[0].first);
    changed += known == Known::nothing ? "[...]" : std::regex_replace(it->str(), kSize, "?");
    at = (*it)[0].second;
  }
  changed.append(at, header.cend());
  return parse_graph(text.substr(0, begin) + changed + text.substr(end), "case");
}

// Inputs of the graph's own dtypes.
Inputs fitting(const Graph& graph, Inputs inputs) {
  for (const ValueId id : graph.main().inputs) {
    const auto found = inputs.find(graph.value(id).name);
    const Tensor* tensor = found == inputs.end() ? nullptr : found->second.tensor();
    const DType dtype = graph.value(id).type.dtype;
    if (tensor == nullptr || tensor->dtype() == dtype || dtype == DType::undefined) continue;
    found->second = from_elements<double>(dtype, tensor->dims(), elements<double>(*tensor));
  }
  return inputs;
}

// Integers stay: they say how.
Premises without_shapes(const Graph& graph, const Types& types, Premises given) {
  for (const ValueId id : graph.main().inputs) {
    std::shared_ptr<AbsTensor>& range = given.of[id.at()];
    if (range != nullptr && is_float(types[id].dtype))
      range = std::make_shared<AbsTensor>(uniform(types[id], range->hull()));
  }
  return given;
}

struct Analyzed {
  Graph graph = {};
  Analysis analysis = {};
};

Analyzed analyzed(const OpCase& test, const Variant& variant, RangeSettings settings) {
  Analyzed result{.graph = variant.known == Known::all ? test.graph : forgetful(test.graph, variant.known)};
  Types types = infer_types(result.graph);
  if (variant.as != DType::undefined) {
    result.graph = convert_floats(result.graph, types, variant.as).graph;
    types = infer_types(result.graph);
  }
  if (variant.same) {
    settings.accumulate = variant.as;
    settings.flush_subnormals = true;
  }
  const Inputs inputs = fitting(result.graph, inputs_of(test));
  Premises given = premises_around(result.graph, types, inputs, settings.max_cells, variant.besides);
  if (variant.known != Known::all) given = without_shapes(result.graph, types, std::move(given));
  result.analysis = analyze(result.graph, types, given, {.ranges = settings});
  EXPECT_EQ(end_outside_format(result.graph, result.analysis), "") << print_graph(result.graph);
  const bool ordinary = !variant.besides.odd() && variant.known == Known::all;
  if (ordinary || !needs_ordinary_inputs(result.graph, variant.known != Known::all || variant.besides.integers))
    expect_sound(result.graph, types, given, result.analysis);
  return result;
}

// The outputs and what is possible.
std::string in_short(const Analyzed& result) {
  std::string text;
  for (const ValueId id : result.graph.main().outputs) text += " " + shown(result.analysis.ranges[id.at()].hull());
  for (const Finding& finding : result.analysis.findings) {
    if (finding.verdict != Verdict::proved) text += " " + std::string(finding.rule);
  }
  return text + "\n";
}

// Variants that change nothing are left out.
std::string ranges_of(const OpCase& test, const RangeSettings& settings) {
  const Analyzed plain = analyzed(test, {.name = ""}, settings);
  std::string text = shown(plain.graph, plain.analysis);
  const std::string usual = in_short(plain);
  for (const Variant& variant : kVariants) {
    std::string line = " cannot be typed\n";
    try {
      line = in_short(analyzed(test, variant, settings));
    } catch (const Error&) {
    }
    if (line != usual) text += "  " + std::string(variant.name) + line;
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
  // So do weights: all floats but the first operand.
  static const std::regex kWeights(R"((, ?)(b?float[0-9]+\[))");
  std::string known, weights, only_weights;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool result = line.find("  expect ") == 0;
    known += (result ? line : std::regex_replace(line, kIntegers, "$1const $2")) + "\n";
    const std::string integers_known = known.substr(known.rfind('\n', known.size() - 2) + 1);
    weights += result ? line + "\n" : std::regex_replace(integers_known, kWeights, "$1const $2");
    only_weights += (result ? line : std::regex_replace(line, kWeights, "$1const $2")) + "\n";
  }
  Records records;
  add_op_cases(text, file, "", {}, records);
  add_op_cases(known, file, ", constants known", {}, records);
  add_op_cases(known, file, ", smashed", {.max_cells = 1}, records);
  add_op_cases(weights, file, ", weights known", {}, records);
  add_op_cases(weights, file, ", weights known, few cells", {.max_cells = 4}, records);
  add_op_cases(only_weights, file, ", only weights known", {}, records);
  return records;
}

Records check_records(const std::string& path) {
  Records records;
  for (const CheckCase& test : read_check_cases(path)) {
    if (!test.error.empty()) continue;  // CheckCases says so
    const CheckedModel result = check(test);
    std::string& lines = records[test.test_name] = shown(result.graph, result.analysis);
    CheckCase coarse = test, narrow = test, flushed = test;
    coarse.settings.max_cells = 1;
    coarse.settings.affine = false;
    if (narrow.target == DType::undefined) narrow.target = DType::bfloat16;
    narrow.settings.accumulate = DType::float32;
    flushed.settings.flush_subnormals = true;
    const std::string usual = in_short({result.graph, result.analysis});
    for (const auto& [name, variant] :
         {std::pair("smashed, interval", &coarse), std::pair("bfloat16", &narrow), std::pair("flushed", &flushed)}) {
      CheckedModel other = check(*variant);
      const std::string line = in_short({std::move(other.graph), std::move(other.analysis)});
      if (line != usual) lines += "  " + std::string(name) + line;
    }
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
