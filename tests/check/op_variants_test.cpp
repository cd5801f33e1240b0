// The cases of testdata/ops with operands that are ranges: near the case's own elements, wide, huge, of one sign, with
// infinities and NaN, of unknown shape, in other formats, with more or less of them constant. Whatever the reference
// computes on members lies in its range.
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
#include "support/paths.h"
#include "support/range_probe.h"
#include "support/shown_ranges.h"
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

void look_at(const OpCase& test, const Variant& variant, RangeSettings settings) {
  Graph graph = variant.known == Known::all ? test.graph : forgetful(test.graph, variant.known);
  Types types = infer_types(graph);
  if (variant.as != DType::undefined) {
    graph = convert_floats(graph, types, variant.as).graph;
    types = infer_types(graph);
  }
  if (variant.same) {
    settings.accumulate = variant.as;
    settings.flush_subnormals = true;
  }
  Premises given = premises_around(graph, types, fitting(graph, inputs_of(test)), settings.max_cells, variant.besides);
  if (variant.known != Known::all) given = without_shapes(graph, types, std::move(given));
  const Analysis analysis = analyze(graph, types, given, {.ranges = settings});
  EXPECT_EQ(end_outside_format(graph, analysis), "") << print_graph(graph);
  const bool ordinary = !variant.besides.odd() && variant.known == Known::all;
  if (ordinary || !needs_ordinary_inputs(graph, variant.known != Known::all || variant.besides.integers))
    expect_sound(graph, types, given, analysis);
}

void look_at_variants(const OpCase& test, const RangeSettings& settings) {
  look_at(test, {.name = "as it is"}, settings);
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(test.name + ", " + variant.name);
    try {
      look_at(test, variant, settings);
    } catch (const Error&) {  // it cannot be typed
    }
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

class OpVariants : public testing::TestWithParam<std::string> {};

// Cases that must fail say nothing about ranges.
TEST_P(OpVariants, LieInTheirRanges) {
  const std::string path = testdata_folder() + "/ops/" + GetParam() + ".txt";
  const Told texts = told(read_text_file(path));
  const std::pair<const std::string*, std::size_t> variants[] = {
      {&texts.all_inputs, 64}, {&texts.integers, 64}, {&texts.integers, 1},
      {&texts.weights, 64},    {&texts.weights, 4},   {&texts.only_weights, 64},
  };
  for (const auto& [text, max_cells] : variants) {
    for (const OpCase& test : parse_cases(*text, path)) {
      if (test.error.empty()) look_at_variants(test, {.max_cells = max_cells});
    }
  }
}

// ---- mixed operands --------------------------------------------------------------

// Every operand in a way of its own, in any mode.
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
      EXPECT_EQ(end_outside_format(graph, analysis), "") << print_graph(graph);
      if (!needs_ordinary_inputs(graph, true)) expect_sound(graph, types, given, analysis);
    } catch (const Error&) {  // it cannot be typed
    }
  }
}

class MixedOperands : public testing::TestWithParam<std::string> {};

// FINITY_TEST_SEED=N mixes in other ways.
TEST_P(MixedOperands, LieInTheirRanges) {
  const std::string path = testdata_folder() + "/ops/" + GetParam() + ".txt";
  const Told texts = told(read_text_file(path));
  for (const std::string* text : {&texts.all_inputs, &texts.integers, &texts.weights, &texts.only_weights}) {
    for (const OpCase& test : parse_cases(*text, path)) {
      if (test.error.empty()) look_at_mixes(test);
    }
  }
}

// ---- suites ----------------------------------------------------------------------

std::vector<std::string> suites() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Text, OpVariants, testing::ValuesIn(suites()), [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Text, MixedOperands, testing::ValuesIn(suites()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace finity
