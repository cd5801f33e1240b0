// testdata/ops/*.txt: small cases per op family, each evaluated and type-checked.
#include "formats/text/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "exec/compare.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

Inputs inputs_of(const OpCase& test) {
  Inputs inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs[test.graph.value(test.graph.main().inputs[i]).name] = test.inputs[i];
  }
  return inputs;
}

void check_outputs(const OpCase& test, const std::vector<Datum>& outputs, const std::string& where) {
  ASSERT_EQ(outputs.size(), test.expected.size()) << where << ": one expect per output";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Compared result = compare(outputs[i], test.expected[i], {test.tolerance, test.tolerance});
    const bool good = test.tolerance > 0 ? result.within : result.identical;
    EXPECT_TRUE(good) << where << ": output " << i << " is "
                      << (outputs[i].tensor() != nullptr ? print_tensor(*outputs[i].tensor()) : "not a tensor") << " "
                      << result.why;
  }
}

void run_case(const OpCase& test, const std::string& where) {
  try {
    const Types types = infer_types(test.graph);
    const std::vector<Datum> outputs = run_reference(test.graph, inputs_of(test));
    if (!test.error.empty()) {
      ADD_FAILURE() << where << ": expected an error with '" << test.error << "'";
      return;
    }
    EXPECT_EQ(type_contradiction(test.graph, types, outputs), "") << where;
    check_outputs(test, outputs, where);
  } catch (const Error& error) {
    const bool expected = !test.error.empty() && std::string(error.what()).find(test.error) != std::string::npos;
    EXPECT_TRUE(expected) << where << ": " << error.what();
  }
}

// What a case says of OpTraits::elements: the numbers of the results are among those of these operands.
class NumbersOf {
 public:
  explicit NumbersOf(const OpCase& test) : test_(test), node_(test.graph.nodes().front()) {}

  void add(std::size_t operand) {
    const ValueId id = node_.inputs[operand];
    const std::vector<ValueId>& given = test_.graph.main().inputs;
    const auto at = std::ranges::find(given, id);
    const ConstantPtr constant = id.valid() ? test_.graph.value(id).constant : nullptr;
    if (at != given.end()) add(&test_.inputs[static_cast<std::size_t>(at - given.begin())]);
    else if (constant) {
      const Tensor tensor = constant->load();
      add(&tensor);
    }
  }
  bool among(double y) const { return std::isnan(y) || std::ranges::find(numbers_, y) != numbers_.end(); }
  bool no_larger(double y) const {
    return std::isnan(y) || std::ranges::any_of(numbers_, [&](double x) { return !(std::abs(x) < std::abs(y)); });
  }

 private:
  void add(const Tensor* tensor) {
    if (tensor == nullptr || tensor->dtype() == DType::string) return;
    const std::vector<double> more = elements<double>(*tensor);
    numbers_.insert(numbers_.end(), more.begin(), more.end());
  }

  const OpCase& test_;
  const Node& node_;
  std::vector<double> numbers_;
};

// How many results were looked at.
int check_elements(const OpCase& test, const std::string& where) {
  if (!test.error.empty() || test.graph.nodes().size() != 1) return 0;
  const Node& node = test.graph.nodes().front();
  const ElementSource source = node.op == nullptr ? ElementSource::computed : node.op->traits.elements;
  if (source == ElementSource::computed || source == ElementSource::converted) return 0;
  NumbersOf from(test);
  const bool all = source == ElementSource::joined || source == ElementSource::chosen;
  const std::size_t first = source == ElementSource::chosen ? 1 : 0;
  for (std::size_t i = first; i < (all ? node.inputs.size() : 1); ++i) from.add(i);
  int looked = 0;
  for (const Tensor& result : test.expected) {
    if (result.dtype() == DType::string) continue;
    for (const double y : elements<double>(result)) {
      const bool holds = source == ElementSource::bounded ? from.no_larger(y) : from.among(y);
      EXPECT_TRUE(holds) << where << ": " << y << " comes from no operand";
    }
    ++looked;
  }
  return looked;
}

class OpCases : public testing::TestWithParam<std::string> {};

TEST_P(OpCases, Hold) {
  const std::string path = testdata_folder() + "/ops/" + GetParam() + ".txt";
  const std::vector<OpCase> cases = parse_cases(read_text_file(path), GetParam() + ".txt");
  EXPECT_FALSE(cases.empty()) << "no case in " << path;
  for (const OpCase& test : cases) run_case(test, GetParam() + ".txt:" + std::to_string(test.line) + " " + test.name);
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

TEST(OpTraits, ElementsComeFromWhereTheTableSays) {
  int looked = 0;
  for (const std::string& family : families()) {
    const std::string file = family + ".txt";
    for (const OpCase& test : parse_cases(read_text_file(testdata_folder() + "/ops/" + file), file)) {
      looked += check_elements(test, file + ":" + std::to_string(test.line) + " " + test.name);
    }
  }
  EXPECT_GT(looked, 90);
}

INSTANTIATE_TEST_SUITE_P(Families, OpCases, testing::ValuesIn(families()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace finity
