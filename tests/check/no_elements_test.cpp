// Operands without elements. An op may have results all the same: a product over an axis of size 0 is a sum of nothing,
// a linear model without features is its intercept. The cases of testdata/ops are taken with axes of size 0, and
// whatever results the reference gives lie in their ranges, or were announced.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "check/analyze.h"
#include "check/verify.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "support/around.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

// Which axes of which operands get size 0.
struct Place {
  std::size_t operand = 0;
  std::size_t axis = 0;
  auto operator<=>(const Place&) const = default;
};
using Places = std::set<Place>;

// Every axis alone, axes of two operands, axes of the same size in all operands, all axes of an operand.
std::set<Places> choices(const std::vector<Tensor>& operands) {
  std::vector<Place> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t axis = 0; axis < operands[i].rank(); ++axis) all.push_back({i, axis});
  }
  const auto size = [&](const Place& place) { return operands[place.operand].dim(place.axis); };
  std::set<Places> result;
  for (const Place& one : all) {
    Places alike, whole;
    for (const Place& other : all) {
      if (size(other) == size(one)) alike.insert(other);
      if (other.operand == one.operand) whole.insert(other);
      if (other.operand != one.operand) result.insert({one, other});
    }
    result.insert({one});
    result.insert(alike);
    result.insert(whole);
  }
  return result;
}

Tensor without_elements(const Tensor& tensor, std::size_t operand, const Places& places) {
  Dims dims = tensor.dims();
  bool changed = false;
  for (const Place& place : places) {
    if (place.operand != operand) continue;
    dims[place.axis] = 0;
    changed = true;
  }
  return changed ? Tensor(tensor.dtype(), dims) : tensor;
}

// Which operands the file gives.
enum class Given : std::uint8_t { none, all_but_first, all };

// The case with other operands.
struct Trial {
  Graph graph = {};
  Inputs inputs = {};

  Trial(const Graph& from, const std::vector<Tensor>& operands, Given given) {
    GraphBuilder builder;
    builder.info() = from.info();
    const BodyId body = builder.add_body("g");
    std::vector<ValueId> moved(from.values().size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const ValueId id = from.main().inputs[i];
      const std::string& name = from.value(id).name;
      const Tensor& tensor = operands[i];
      const bool constant = given == Given::all || (given == Given::all_but_first && i > 0);
      if (constant) {
        moved[id.at()] = builder.add_constant(body, name, make_constant(tensor));
        continue;
      }
      moved[id.at()] = builder.add_input(body, name, Type::tensor_of(tensor.dtype(), tensor.dims()));
      inputs[name] = tensor;
    }
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const Value& value = from.values()[i];
      if (moved[i].valid()) continue;
      moved[i] =
          value.constant ? builder.add_constant(body, value.name, value.constant) : builder.add_value(body, value.name);
    }
    for (const NodeId id : from.main().nodes) {
      Node node = from.node(id);
      node.op_type = builder.intern(node.op_type);
      node.domain = builder.intern(node.domain);
      node.body = body;
      const auto move = [&](ValueId& value) { value = value.valid() ? moved[value.at()] : value; };
      std::ranges::for_each(node.inputs, move);
      std::ranges::for_each(node.outputs, move);
      builder.add_node(std::move(node));
    }
    for (const ValueId id : from.main().outputs) builder.add_output(body, moved[id.at()]);
    graph = std::move(builder).build();
  }
};

bool gives_elements(const Trial& trial) {
  try {
    const auto has_elements = [](const Datum& datum) {
      return datum.tensor() != nullptr && datum.tensor()->size() > 0;
    };
    return std::ranges::any_of(run_reference(trial.graph, trial.inputs), has_elements);
  } catch (const Error&) {
    return false;
  }
}

void expect_inside(const Trial& trial, const Types& types, const Premises& given, std::size_t max_cells) {
  const Analysis analysis = analyze(trial.graph, types, given, {.ranges = {.max_cells = max_cells}});
  VerifyReport report;
  try {
    verify_run(trial.graph, analysis, {.inputs = trial.inputs, .weights = {}}, 0, report);
  } catch (const Error& error) {
    const bool escaped = std::string_view(error.what()).starts_with("verification failed: node");
    if (escaped) ADD_FAILURE() << error.what() << "\n" << print_graph(trial.graph);
  }
}

// Whether there was something to look at.
bool look_at(const Trial& trial) {
  if (!gives_elements(trial)) return false;
  try {
    const Types types = infer_types(trial.graph);
    expect_inside(trial, types, premises_around(trial.graph, types, trial.inputs, 64), 64);
    expect_inside(trial, types, premises_around(trial.graph, types, trial.inputs, 1), 1);
    // The operands' elements are anything, as of a file that says no more.
    expect_inside(trial, types, premises(trial.graph, types, {}, 64), 64);
  } catch (const Error&) {
    return false;  // inference refuses what the reference takes
  }
  return true;
}

int look_at_cases(const std::string& suite) {
  const std::string path = testdata_folder() + "/ops/" + suite + ".txt";
  int looks = 0;
  for (const OpCase& test : parse_cases(read_text_file(path), path)) {
    if (!test.error.empty() || test.graph.bodies().size() > 1) continue;
    SCOPED_TRACE(test.name);
    for (const Places& places : choices(test.inputs)) {
      std::vector<Tensor> operands;
      for (std::size_t i = 0; i < test.inputs.size(); ++i)
        operands.push_back(without_elements(test.inputs[i], i, places));
      for (const Given given : {Given::none, Given::all_but_first, Given::all})
        looks += look_at({test.graph, operands, given}) ? 1 : 0;
    }
  }
  return looks;
}

class NoElements : public testing::TestWithParam<std::string> {};

TEST_P(NoElements, ResultsLieInTheirRanges) { RecordProperty("looks", look_at_cases(GetParam())); }

std::vector<std::string> suites() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Text, NoElements, testing::ValuesIn(suites()), [](const auto& info) { return info.param; });

// The trials above find something to look at.
TEST(NoElements, HaveResults) {
  for (const char* suite : {"linear", "reduce", "ml", "pool"}) EXPECT_GT(look_at_cases(suite), 10) << suite;
}

}  // namespace
}  // namespace finity
