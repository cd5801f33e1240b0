#include "check/constants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "check/constant_scan.h"
#include "check_support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

// "FN403 name possible; ..." for the model converted to float16, or as it is.
std::string found(const std::string& text, DType target, bool with_analysis = true, NodeSet keep = {}) {
  const Graph graph = parse_graph(text, "test");
  const Types types = infer_types(graph);
  const Conversion conversion =
      convert_floats(graph, types, target == DType::undefined ? DType::float32 : target, keep);
  const Checked result = checked(conversion.graph, ranges({"*:[-3,3]"}));
  const ConstantChecks checks = {
      .target = target, .kept = &conversion.kept, .analysis = with_analysis ? &result.analysis : nullptr};
  std::string words;
  for (const Finding& finding : constant_findings(graph, checks)) {
    words += (words.empty() ? "" : "; ") + std::string(finding.rule) + " " + graph.value(finding.value).name + " " +
             std::string(name(finding.verdict));
  }
  return words;
}

std::string model(const std::string& constants, const std::string& nodes) {
  return "opset 17\ngraph g (x: float32[2, 2], m: bool[2, 2]) -> (y) {\n" + constants + "\n" + nodes + "\n}\n";
}

TEST(Constants, AsTheyAre) {
  struct Row {
    const char* constants;
    const char* nodes;
    const char* expected;
  };
  const Row rows[] = {
      {"const w: float32[2, 2] = {1, 2, 3, 4}", "y = MatMul(x, w)", ""},
      {"const w: float32[2, 2] = {1, nan, 3, 4}", "y = MatMul(x, w)", "FN401 w possible"},
      {"const w: float32[2, 2] = {1, inf, 3, 4}", "y = MatMul(x, w)", "FN402 w possible"},
      {"const w: float32[2, 2] = {0, -inf, 0, 0}", "s = Add(x, w)\n y = Softmax(s)", "FN402 w proved"},
      {"const w: float32[] = {-inf}", "s = Where(m, x, w)\n y = Relu(s)", "FN402 w proved"},
      {"const w: float32[] = {-inf}", "y = Where(m, x, w)", "FN402 w possible"},
      {"const w: float32[2] = {inf, -inf}", "y = Add(x, w)", "FN402 w possible"},
      {"", "w = Constant() {value_float = nan}\n y = Add(x, w)", "FN401 w possible"},
      {"const s: int64[1] = {2}", "w = ConstantOfShape(s) {value = float32[1] {nan}}\n y = Add(x, w)",
       "FN401 w possible"},
      {"const w: int64[1] = {4}", "y = Reshape(x, w)", ""},
      {"const w: float32[2, 2] = {...}", "y = MatMul(x, w)", ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(found(model(row.constants, row.nodes), DType::undefined), row.expected) << row.constants << row.nodes;
  }
}

TEST(Constants, InFloat16) {
  struct Row {
    const char* constants;
    const char* nodes;
    const char* expected;
  };
  const Row rows[] = {
      {"const w: float32[] = {-1e9}", "s = Where(m, x, w)\n y = Softmax(s)", "FN403 w possible"},
      {"const w: float32[2] = {1, 70000}", "y = Add(x, w)", "FN403 w possible"},
      {"const w: float32[2] = {1, 65519}", "y = Add(x, w)", ""},
      {"const hi: float32[] = {3.4e38}\n const lo: float32[] = {-3.4e38}", "y = Clip(x, lo, hi)", ""},
      {"const lo: float32[] = {0}\n const w: float32[] = {1e9}", "c = Clip(x, w, w)\n y = Relu(c)", "FN403 w possible"},
      {"const e: float32[] = {1e-9}", "s = Mul(x, x)\n t = Add(s, e)\n y = Log(t)", "FN404 e possible"},
      {"const e: float32[] = {1e-9}", "p = Exp(x)\n t = Add(p, e)\n y = Log(t)", "FN404 e proved"},
      {"const e: float32[2] = {1e-9, 1}", "y = Mul(x, e)", ""},
      {"const e: float32[] = {1e-7}", "s = Mul(x, x)\n t = Add(s, e)\n y = Log(t)", ""},
      {"const a: float32[] = {0.001}\n const b: float32[] = {0.9999}\n const one: float32[] = {1}",
       "p = Sigmoid(x)\n c = Clip(p, a, b)\n q = Sub(one, c)\n y = Log(q)", "FN405 b proved"},
      {"", "e = Constant() {value_float = 1e-9}\n s = Mul(x, x)\n t = Add(s, e)\n y = Log(t)", "FN404 e possible"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(found(model(row.constants, row.nodes), DType::float16), row.expected) << row.constants << row.nodes;
    EXPECT_EQ(found(model(row.constants, row.nodes), DType::undefined), "") << "not a matter of the file itself";
  }
  EXPECT_EQ(found(model(rows[6].constants, rows[6].nodes), DType::float16, false), "FN404 e possible")
      << "without an analysis every suspicion counts";
  EXPECT_EQ(found(model(rows[0].constants, rows[0].nodes), DType::bfloat16), "");
}

TEST(Constants, WhatOnlyKeptNodesUseStays) {
  const std::string text = model("const w: float32[] = {-1e9}", "s = Where(m, x, w)\n y = Softmax(s)");
  EXPECT_EQ(found(text, DType::float16, true, {NodeId{0}}), "");
  EXPECT_EQ(found(text, DType::float16, true, {NodeId{1}}), "FN403 w possible");
}

TEST(Constants, AbsorbedBeforeAnythingRuns) {
  const std::string text =
      model("const one: float32[] = {1}\n const e: float32[] = {1e-9}",
            "limit = Sub(one, e)\n p = Sigmoid(x)\n c = Min(p, limit)\n q = Sub(one, c)\n y = Log(q)");
  EXPECT_EQ(found(text, DType::undefined), "FN405 e proved") << "nothing comes near 1 for x up to 3";
}

TEST(Constants, RangesTheInputCannotHold) {
  const Checked test = premises_of(parse_graph("opset 17\ngraph g (x: float16[2]) -> (y) { y = Relu(x) }", "test"),
                                   ranges({"x:[0,1e6]"}));
  const std::vector<Finding> findings = input_findings(test.premises);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].rule, "FN206");
  EXPECT_EQ(findings[0].value, test.value("x"));
  EXPECT_EQ(to_string(findings[0].seen), "[0, 1e+06]");
}

TEST(ConstantScan, FindsEndsAndFlags) {
  Rng rng(5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> cases = {
      {}, {0}, {-0.0F, 0}, {nan}, {-nan, 1}, {inf, -2}, {-inf}, {1, -1, inf, -inf, nan}, {1e-45F, -1e-45F}};
  for (std::size_t i = 0; i < cases.size() + 50; ++i) {
    std::vector<float> values = i < cases.size() ? cases[i] : std::vector<float>(37);
    if (i >= cases.size()) {
      for (float& x : values) x = static_cast<float>(rng.normal() * std::pow(10, rng.uniform(-30, 30)));
    }
    Range expected;
    for (const float x : values) expected = join(expected, point(x));
    const auto count = static_cast<std::int64_t>(values.size());
    const ConstantPtr constant = make_constant(Tensor::of<float>(DType::float32, {count}, values));
    const Range actual = scan_constant(*constant);
    EXPECT_EQ(actual.lo, expected.lo);
    EXPECT_EQ(actual.hi, expected.hi);
    EXPECT_EQ(actual.nan, expected.nan);
    EXPECT_EQ(actual.pinf, expected.pinf);
    EXPECT_EQ(actual.ninf, expected.ninf);
  }
  EXPECT_EQ(scan_constant(*make_constant(Tensor::scalar(std::int64_t{-7}))).lo, -7);
  EXPECT_TRUE(scan_constant(*make_constant(Tensor::of_strings({1}, {"a"}))).is_empty());
}

}  // namespace
}  // namespace finity
