// testdata/ops/*.txt: small cases per op family, each evaluated and type-checked.
#include "formats/text/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "exec/compare.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "support/paths.h"
#include "support/support.h"
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

INSTANTIATE_TEST_SUITE_P(Families, OpCases, testing::ValuesIn(families()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace finity
