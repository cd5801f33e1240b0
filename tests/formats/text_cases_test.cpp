// Files of op cases.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"

namespace finity {
namespace {

std::string cases_error(std::string_view text) {
  try {
    parse_cases(text, "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OpCases, InputsExpectationsAndErrors) {
  const auto cases = parse_cases(R"(
opset 17
case log_of_zero   // comment
  y = Log(float32[3] {1, 0, -1})
  expect float32[3] {0, -inf, nan}
case bad_axis
  y = Softmax(float32[2, 2] {1, 2, 3, 4}) {axis = 5}
  error "axis"
opset 11
opset com.microsoft 2
case "several nodes"
  a = Exp(float16[1] {12})
  y, _, z = com.microsoft.Op(a, _, const int64[1] {3}, int8[] {4})
  expect float16[1] {inf} within 1e-3
  expect int8[0] {}
)",
                                 "f");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].name, "log_of_zero");
  EXPECT_EQ(cases[0].line, 3);
  EXPECT_EQ(cases[0].tolerance, 0);
  EXPECT_EQ(print_tensor(cases[0].inputs.at(0)), "float32[3] {1, 0, -1}");
  EXPECT_EQ(print_tensor(cases[0].expected.at(0)), "float32[3] {0, -inf, nan}");
  EXPECT_EQ(print_graph(cases[0].graph),
            "opset 17\ngraph log_of_zero (\"#0\": float32[3]) -> (y) {\n  y = Log(\"#0\")\n}\n");
  EXPECT_EQ(cases[1].error, "axis");
  EXPECT_TRUE(cases[1].expected.empty());
  EXPECT_EQ(cases[2].tolerance, 1e-3);
  EXPECT_EQ(cases[2].inputs.size(), 2u);
  EXPECT_EQ(cases[2].expected.size(), 2u);
  EXPECT_EQ(
      print_graph(cases[2].graph),
      "opset 11\nopset com.microsoft 2\n"
      "graph \"several nodes\" (\"#0\": float16[1], \"#2\": int8[]) -> (y, z) {\n"
      "  const \"#1\": int64[1] = {3}\n  a = Exp(\"#0\")\n  y, _, z = com.microsoft.Op(a, _, \"#1\", \"#2\")\n}\n");
}

TEST(OpCases, LiteralsInSubgraphsAreInputsOfTheMainGraph) {
  const auto cases = parse_cases(R"(opset 17
case branch
  const k: float32[1] = {2}
  y = If(bool[] {true}) {
    then_branch = graph () -> (p) { p = Add(k, float32[1] {3}) },
    else_branch = graph () -> (q) { q = Identity(const float32[1] {4}) }
  }
  expect float32[1] {5}
)",
                                 "f");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].graph.main().inputs.size(), 2u);
  EXPECT_EQ(cases[0].inputs.size(), 2u);
  EXPECT_EQ(cases[0].graph.bodies()[2].constants.size(), 1u);
}

TEST(OpCases, AValueMayBeNamedLikeADtype) {
  const auto cases = parse_cases("opset 1 case a float32 = Op() y = Op(float32) expect int8[0] {}", "f");
  EXPECT_TRUE(cases.at(0).inputs.empty());
}

TEST(OpCases, Refusals) {
  EXPECT_EQ(cases_error("opset 1 y = Op()"), "f:1:9: expected 'case' or 'opset' but found 'y'");
  EXPECT_EQ(cases_error("case a"), "f:1:1: case 'a' has no node");
  EXPECT_EQ(cases_error("case a expect int8[0] {}"), "f:1:1: case 'a' has no node");
  EXPECT_EQ(cases_error("opset 1 case a y = Op()"), "f:1:9: case 'a' has 1 outputs and expects 0");
  EXPECT_EQ(cases_error("opset 1 case a y = Op() error \"\""), "f:1:25: the expected error is empty");
  EXPECT_EQ(cases_error("opset 1 case a y = Op() expect int8[0] {} error \"x\""),
            "f:1:25: a case expects outputs or an error, not both");
  EXPECT_EQ(cases_error("opset 1 case a y = Op() error \"x\" case a y = Op() error \"x\""),
            "f:1:35: case 'a' is there twice");
  EXPECT_EQ(cases_error("opset 1 case a y = Op(z) error \"x\""), "f:1:23: value 'z' is not defined");
  EXPECT_EQ(cases_error("opset 1 case a y = Op(y) error \"x\""), "f:1:16: node producing 'y' (Op): is part of a cycle");
  EXPECT_EQ(cases_error("opset 1 case a y = Op() expect int8[0] {} within -1"), "f:1:43: a tolerance is not negative");
  EXPECT_EQ(cases_error("opset 1 case a y, z = Op() expect int8[0] {} within 1 expect int8[0] {} within 2"),
            "f:1:73: a case has one tolerance, which holds for all its outputs");
  EXPECT_EQ(cases_error("opset 1 case a y = Op(const x)"),
            "f:1:29: expected a tensor such as float32[2] {1, 2} but found 'x'");
}

}  // namespace
}  // namespace finity
