// Every official ONNX model, with the ranges of its own test data as contract: what the reference
// computes from these data, and from random inputs inside the ranges, must lie where the analysis says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "check/constant_scan.h"
#include "check/convert.h"
#include "check/verify.h"
#include "conformance/conformance.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "support/paths.h"

namespace finity {
namespace {

constexpr int kDraws = 6;

void include(const Datum& datum, Range& range) {
  if (const Sequence* items = datum.sequence()) {
    for (const Datum& item : *items) include(item, range);
  } else if (datum.tensor() != nullptr && datum.tensor()->dtype() != DType::string) {
    range = join(range, scan_constant(*make_constant(*datum.tensor())));
  }
}

Contract contract_of(const Inputs& inputs) {
  Contract contract;
  for (const auto& [name, datum] : inputs) {
    Range range;
    include(datum, range);
    if (range.is_empty()) continue;
    InputContract input;
    input.pattern = name;
    input.lo = range.ninf ? -kInf : range.has_finite() ? range.lo : 0;
    input.hi = range.pinf ? kInf : range.has_finite() ? range.hi : 0;
    input.allow_nan = range.nan;
    contract.inputs.push_back(std::move(input));
  }
  return contract;
}

Bindings bindings_of(const Graph& graph, const Inputs& inputs) {
  Bindings bindings;
  for (const ValueId id : graph.main().inputs) {
    const auto given = inputs.find(graph.value(id).name);
    const bool known = given != inputs.end() && given->second.tensor() != nullptr && graph.value(id).type.is_tensor();
    if (known) bindings.inputs[given->first] = given->second.tensor()->dims();
  }
  return bindings;
}

// The data of four tests of ONNX 1.12 have another shape than their models declare.
bool contradicts_itself(const Graph& graph, const Inputs& inputs) {
  for (const ValueId id : graph.main().inputs) {
    const auto given = inputs.find(graph.value(id).name);
    if (given == inputs.end() || given->second.tensor() == nullptr || !graph.value(id).type.is_tensor()) continue;
    bool conflict = false;
    merge(graph.value(id).type, Type::tensor_of(given->second.tensor()->dtype(), given->second.tensor()->dims()),
          &conflict);
    if (conflict) return true;
  }
  return false;
}

struct Totals {
  int models = 0;
  int cannot_run = 0;
  int contradictory = 0;
  int drawn = 0;  // models that were also run on random inputs
  VerifyReport report = {};
};

// What the inputs are taken to be: within their test data, what finity guesses, every finite value, every value.
enum class Wish : std::uint8_t { own, guessed, finite, all };

struct Setting {
  const char* name;
  Wish wish = Wish::own;
  DType as = DType::undefined;
  std::size_t max_cells = 64;
  bool affine = true;
};

Contract contract_for(const Setting& setting, const Inputs& inputs) {
  Contract contract;
  if (setting.wish == Wish::own) return contract_of(inputs);
  if (setting.wish == Wish::finite) add_range(contract, "*:[-max,max]");
  if (setting.wish == Wish::all) {
    add_range(contract, "*:[-inf,inf]");
    contract.inputs.back().allow_nan = true;
  }
  // Operands that say how (axes, shapes, ...) stay what the test has, or hardly any run would get anywhere.
  for (InputContract& input : contract_of(inputs).inputs) {
    const auto given = inputs.find(input.pattern);
    const Tensor* tensor = given->second.tensor();
    if (tensor == nullptr || !is_float(tensor->dtype())) contract.inputs.push_back(std::move(input));
  }
  return contract;
}

bool holds_numbers(const Graph& graph) {
  return std::ranges::none_of(graph.main().inputs,
                              [&](ValueId id) { return graph.value(id).type.dtype == DType::string; });
}

void check_model(const std::string& directory, const Setting& setting, Totals& totals) {
  std::vector<Note> notes;
  Graph graph = read_onnx(directory + "/model.onnx", notes);
  const TestData data = read_test_data(directory + "/test_data_set_0", graph);
  if (contradicts_itself(graph, data.inputs) || (setting.wish != Wish::own && !holds_numbers(graph))) {
    ++totals.contradictory;
    return;
  }
  const Bindings bindings = bindings_of(graph, data.inputs);
  Types types = infer_types(graph, bindings);
  if (setting.as != DType::undefined) {
    graph = convert_floats(graph, types, setting.as).graph;
    types = infer_types(graph, bindings);
  }
  const Premises given = premises(graph, types, contract_for(setting, data.inputs), setting.max_cells);
  CheckOptions options;
  options.ranges.max_cells = setting.max_cells;
  options.ranges.affine = setting.affine;
  const Analysis analysis = analyze(graph, types, given, options);
  ++totals.models;
  if (setting.wish == Wish::own && setting.as == DType::undefined) {
    VerifyReport own;
    verify_run(graph, analysis, {.inputs = data.inputs, .weights = {}}, 0, own);
    if (own.failed > 0 || !own.unsupported.empty()) ++totals.cannot_run;
    totals.report.tensors += own.tensors;
  }
  Rng rng(7);
  for (int number = 0; number < kDraws; ++number) {
    Drawn drawn;
    try {
      drawn = draw_inside(graph, types, given, rng, number);
    } catch (const Error&) {
      return;  // sequences are not drawn
    }
    verify_run(graph, analysis, drawn, static_cast<std::uint64_t>(number), totals.report);
  }
  ++totals.drawn;
}

class Official : public ::testing::TestWithParam<Setting> {};

TEST_P(Official, EveryTensorLiesInItsRange) {
  if (!std::filesystem::exists(onnx_testdata_folder() + "/node")) GTEST_SKIP() << "no official tests here";
  Totals totals;
  for (const std::string& test : official_tests(onnx_testdata_folder())) {
    const std::string directory = onnx_testdata_folder() + "/" + test;
    if (!std::filesystem::exists(directory + "/test_data_set_0")) continue;
    try {
      check_model(directory, GetParam(), totals);
    } catch (const std::exception& error) {
      ADD_FAILURE() << test << ": " << error.what();
    }
  }
  std::cout << totals.models << " models, " << totals.cannot_run << " cannot be run, " << totals.drawn << " drawn, "
            << totals.report.tensors << " tensors (" << totals.report.vacuous << " vacuous), " << totals.report.elements
            << " elements, " << totals.report.skipped << " skipped, " << totals.report.failed << " of "
            << totals.report.runs << " runs stopped\n";
  const bool own = GetParam().wish == Wish::own;
  EXPECT_GT(totals.models, 900);
  EXPECT_LT(totals.cannot_run, 10);
  EXPECT_LT(totals.contradictory, own ? 5 : 100);
  EXPECT_GT(totals.drawn, 900);
  EXPECT_GT(totals.report.tensors, own ? 15000U : 5000U);
  EXPECT_LT(totals.report.vacuous, totals.report.tensors / (own ? 10 : 2));
}

constexpr Setting kSettings[] = {
    {.name = "own"},
    {.name = "smashed", .max_cells = 1},
    {.name = "intervals", .affine = false},
    {.name = "float16", .as = DType::float16},
    {.name = "bfloat16", .as = DType::bfloat16},
    {.name = "guessed", .wish = Wish::guessed},
    {.name = "guessed16", .wish = Wish::guessed, .as = DType::float16},
    {.name = "finite", .wish = Wish::finite},
    {.name = "finite16", .wish = Wish::finite, .as = DType::float16},
    {.name = "all", .wish = Wish::all},
};

INSTANTIATE_TEST_SUITE_P(With, Official, ::testing::ValuesIn(kSettings),
                         [](const auto& setting) { return std::string(setting.param.name); });

}  // namespace
}  // namespace finity
