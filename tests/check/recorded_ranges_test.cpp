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
#include "support/fingerprint.h"
#include "support/range_probe.h"
#include "support/recorded.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns = 8;
constexpr int kMixes = 24;

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
    if (!escaped) return;
    std::string operands;
    for (const ValueId id : graph.main().inputs) {
      const std::shared_ptr<AbsTensor>& operand = given.of[id.at()];
      operands += "\n" + graph.value(id).name + " " + (operand == nullptr ? "" : shown(*operand));
    }
    ADD_FAILURE() << error.what() << "\n" << print_graph(graph) << operands;
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

// A case file, with more or less of the operands known.
struct Told {
  std::string all_inputs = {}, integers = {}, weights = {}, only_weights = {};
};

Told told(const std::string& text) {
  // Operands that say how become constants: `Slice(x, int64[1] {0}, ...`.
  static const std::regex kIntegers(R"(([(,] ?)((?:u?int[0-9]+|bool)\[))");
  // So do weights: all floats but the first operand.
  static const std::regex kWeights(R"((, ?)(b?float[0-9]+\[))");
  Told result{.all_inputs = text};
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool expected = line.find("  expect ") == 0;
    const std::string known = expected ? line : std::regex_replace(line, kIntegers, "$1const $2");
    result.integers += known + "\n";
    result.weights += (expected ? line : std::regex_replace(known, kWeights, "$1const $2")) + "\n";
    result.only_weights += (expected ? line : std::regex_replace(line, kWeights, "$1const $2")) + "\n";
  }
  return result;
}

Records op_records(const std::string& path) {
  const std::string file = fs::path(path).filename();
  const Told texts = told(read_text_file(path));
  Records records;
  add_op_cases(texts.all_inputs, file, "", {}, records);
  add_op_cases(texts.integers, file, ", constants known", {}, records);
  add_op_cases(texts.integers, file, ", smashed", {.max_cells = 1}, records);
  add_op_cases(texts.weights, file, ", weights known", {}, records);
  add_op_cases(texts.weights, file, ", weights known, few cells", {.max_cells = 4}, records);
  add_op_cases(texts.only_weights, file, ", only weights known", {}, records);
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

// ---- mixed operands --------------------------------------------------------------

// Every operand in a way of its own, in any mode: too many to be recorded one by one.
void look_at_mixes(const OpCase& test) {
  constexpr std::size_t kCells[] = {1, 4, 64, 4096};
  Rng rng = seeded(std::hash<std::string_view>{}(test.name));
  for (int mix = 0; mix < kMixes; ++mix) {
    RangeSettings settings{.max_cells = kCells[rng.below(std::size(kCells))], .affine = rng.below(6) != 0};
    if (rng.below(4) == 0) settings.accumulate = DType::float32;
    settings.flush_subnormals = rng.below(6) == 0;
    const Known known = rng.below(5) == 0 ? Known::ranks : Known::all;
    try {
      const Graph graph = known == Known::all ? test.graph : forgetful(test.graph, known);
      const Types types = infer_types(graph);
      Premises given = mixed_premises(graph, types, inputs_of(test), settings.max_cells, rng);
      if (known != Known::all) given = without_shapes(graph, types, std::move(given));
      const Analysis analysis = analyze(graph, types, given, {.ranges = settings});
      computed(test.name + " " + std::to_string(mix) + "\n" + shown(graph, analysis));
      EXPECT_EQ(end_outside_format(graph, analysis), "") << print_graph(graph);
      if (!needs_ordinary_inputs(graph, true)) expect_sound(graph, types, given, analysis);
    } catch (const Error& error) {
      computed(test.name + ": " + error.what());
    }
  }
}

class MixedOperands : public testing::TestWithParam<std::string> {};

// FINITY_TEST_SEED=N mixes in other ways.
TEST_P(MixedOperands, LieInTheirRanges) {
  const std::string path = std::string(FINITY_TESTDATA) + "/ops/" + GetParam().substr(4) + ".txt";
  const Told texts = told(read_text_file(path));
  for (const std::string* text : {&texts.all_inputs, &texts.integers, &texts.weights, &texts.only_weights}) {
    for (const OpCase& test : parse_cases(*text, path)) {
      if (test.error.empty()) look_at_mixes(test);
    }
  }
}

// ---- suites ----------------------------------------------------------------------

std::vector<std::string> suites(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::directory_iterator(std::string(FINITY_TESTDATA) + "/" + folder)) {
      if (entry.path().extension() == ".txt") names.push_back(folder + "_" + entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Text, RecordedRanges, testing::ValuesIn(suites({"ops", "check"})),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Text, MixedOperands, testing::ValuesIn(suites({"ops"})),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace finity
