// What a finding says fits the place where it is, and does not contradict itself.
#include <gtest/gtest.h>

#include "check/check_graph.h"
#include "formats/text/text.h"
#include "report/collect.h"
#include "report/words.h"

namespace finity {
namespace {

struct Told {
  Report report;

  explicit Told(const std::string& text, std::initializer_list<const char*> ranges = {}, DType target = {}) {
    Contract contract;
    for (const char* range : ranges) add_range(contract, range);
    GraphCheckOptions options;
    options.target = target;
    const CheckedGraph model = check_graph(parse_graph("opset 17\n" + text, "g"), contract, options);
    const bool converted = target != DType::undefined;
    collect(report, {model.graph, model.types, model.analysis, model.premises.assumptions, converted}, {});
  }

  const Alarm& alarm(std::string_view code) const {
    static const Alarm kNone = {.rule = find_rule("FN901")};
    for (const Alarm& alarm : report.alarms) {
      if (alarm.rule->code == code) return alarm;
    }
    return kNone;
  }

  std::string fix(std::string_view code) const { return std::string(fix_of(alarm(code))); }
  std::string text() const { return text_report({.reports = {report}}); }
};

bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(Advice, ADivisorIsKeptFromZeroByWhatItIs) {
  const Told count(R"(graph g (x: float32[4], m: bool[4]) -> (y) {
      w = Cast(m) {to = 1}
      n = ReduceSum(w) {keepdims = 0}
      y = Div(x, n) })");
  EXPECT_TRUE(says(count.fix("FN101"), "Max(n, 1)")) << count.fix("FN101");
  const Told either(R"(graph g (x: float32[4]) -> (y) {
      d = Neg(x)
      y = Div(x, d) })");
  EXPECT_TRUE(says(either.fix("FN101"), "Where(Abs(d)")) << "adding an epsilon would only move the zero";
  const Told given("graph g (x: float32[4], d: float32[4]) -> (y) { y = Div(x, d) }");
  EXPECT_TRUE(says(given.fix("FN101"), "--range 'd:[lo,hi]'")) << given.fix("FN101");
  const Told sums(R"(graph g (x: float32[4]) -> (y) {
      e = Exp(x)
      s = ReduceSum(e)
      y = Div(e, s) })",
                  {"x:[-200,10]"});
  EXPECT_TRUE(says(sums.fix("FN101"), "Softmax")) << sums.fix("FN101");
  const Told constant(R"(graph g (x: float32[2]) -> (y) {
      const z: float32[2] = {1, 0}
      i = Mul(z, z)
      y = Div(x, i) })");
  EXPECT_TRUE(says(constant.fix("FN101"), "constant")) << constant.fix("FN101");
}

TEST(Advice, LogarithmsAreReplacedByWhatTheyAreMeantToBe) {
  EXPECT_TRUE(
      says(Told("graph g (x: float32[4]) -> (y) { s = Softmax(x)\n y = Log(s) }", {"x:[-500,500]"}).fix("FN102"),
           "LogSoftmax"));
  EXPECT_TRUE(
      says(Told("graph g (x: float32[4]) -> (y) { s = Sigmoid(x)\n y = Log(s) }", {"x:[-500,500]"}).fix("FN102"),
           "Softplus(-x)"));
  EXPECT_TRUE(says(Told("graph g (x: float32[4]) -> (y) { s = Relu(x)\n y = Log(s) }").fix("FN102"), "Log(Max(x"));
}

TEST(Advice, AnExponentialIsReadByItsUse) {
  const Told variance(R"(graph g (logvar: float32[4], noise: float32[4]) -> (y) {
      s = Exp(logvar)
      y = Mul(s, noise) })",
                      {"logvar:[-100,100]", "noise:[-1,1]"});
  EXPECT_TRUE(says(variance.fix("FN201"), "clamp the log-variance")) << variance.fix("FN201");
  EXPECT_FALSE(says(variance.fix("FN201"), "Softmax"));
  const Told softmax(R"(graph g (x: float32[4]) -> (y) {
      e = Exp(x)
      s = ReduceSum(e)
      y = Div(e, s) })",
                     {"x:[0,100]"});
  EXPECT_TRUE(says(softmax.fix("FN201"), "Softmax")) << softmax.fix("FN201");
}

// float32 is no remedy for a model that is in float32 already.
TEST(Advice, KeepingFloat32IsSaidOnlyOfAConversion) {
  const std::string text = "graph g (x: float32[4]) -> (y) { y = ReduceSumSquare(x) }";
  EXPECT_TRUE(says(Told(text, {"x:[-1000,1000]"}, DType::float16).fix("FN205"), "keep this node in float32"));
  EXPECT_FALSE(says(Told(text, {"x:[-1e30,1e30]"}).fix("FN205"), "float32"));
  EXPECT_TRUE(says(Told(text, {"x:[-1e30,1e30]"}).fix("FN205"), "--range 'x:[lo,hi]'"));
}

TEST(Advice, AMaskedSoftmaxPrintsItsContract) {
  const auto masked = [](const std::string& order, const std::string& type) {
    return Told("graph g (scores: float32[2, 4], attention_mask: " + type + "[2, 4]) -> (p) {\n" +
                "const none: float32[] = {-inf}\n keep = Cast(attention_mask) {to = 9}\n m = Where(keep, " + order +
                ")\n p = Softmax(m) }");
  };
  const Told zeros = masked("scores, none", "int64");
  EXPECT_TRUE(says(zeros.text(), "\n    [inputs.attention_mask]\n    mask = \"one-true-per-row\"\n")) << zeros.text();
  // Ones mask: a true element in every row would promise nothing.
  EXPECT_TRUE(masked("none, scores", "bool").alarm("FN301").contract.empty());
  const Told additive(R"(graph g (scores: float32[2, 4], bias: float32[2, 4]) -> (p) {
      s = Add(scores, bias)
      p = Softmax(s) })",
                      {"bias:[-inf,0]"});
  EXPECT_TRUE(says(additive.text(), "\n    [inputs.bias]\n    mask = \"one-zero-per-row\"\n")) << additive.text();
}

// What is pasted must be accepted, and prove it.
TEST(Advice, TheContractOfAMaskedSoftmaxProvesIt) {
  const std::string text = R"(graph g (scores: float32[2, 4], bias: float32[2, 4]) -> (p) {
      s = Add(scores, bias)
      p = Softmax(s) })";
  const Told told(text, {"bias:[-inf,0]", "scores:[-5,5]"});
  std::string pasted;
  for (const std::string& line : told.alarm("FN301").contract) pasted += line + "\n";
  Contract contract = parse_contract(pasted, "pasted.toml");
  add_range(contract, "scores:[-5,5]");
  const CheckedGraph model = check_graph(parse_graph("opset 17\n" + text, "g"), contract, {});
  for (const Finding& finding : model.analysis.findings) EXPECT_EQ(finding.verdict, Verdict::proved) << finding.rule;
}

TEST(Findings, AConstantThatOverflowsComesBeforeItsConsequences) {
  const Told told(R"(graph g (scores: float32[2, 4], mask: bool[2, 4]) -> (p) {
      const none: float32[] = {-1e9}
      m = Where(mask, scores, none)
      p = Softmax(m) })",
                  {"scores:[-50,50]"}, DType::float16);
  const std::vector<AlarmGroup> groups = group(told.report);
  ASSERT_EQ(groups.size(), 1U) << told.text();
  EXPECT_EQ(groups.front().head->rule->code, "FN403");
  ASSERT_EQ(groups.front().others.size(), 1U);
  EXPECT_EQ(groups.front().others.front()->rule->code, "FN301");
  EXPECT_TRUE(says(told.text(), "holds -1e+09, in float16 -Inf")) << told.text();
}

TEST(Findings, ConstantsWithTheSameNumberAreOne) {
  const Told told(R"(graph g (x: float32[4]) -> (y, z) {
      const eps: float32[] = {1e-9}
      const tiny: float32[] = {1e-9}
      s = Mul(x, x)
      d = Add(s, eps)
      e = Add(s, tiny)
      y = Div(x, d)
      z = Div(x, e) })",
                  {"x:[-1,1]"}, DType::float16);
  ASSERT_EQ(group(told.report).size(), 1U) << told.text();
  EXPECT_TRUE(says(told.text(), "1 more constant like it")) << told.text();
}

// A mean of small numbers is infinite only when its sum is.
TEST(Advice, SumsOnTheWayAreNamed) {
  const Told told("graph g (x: float32[4096]) -> (y) { y = ReduceMean(x) }", {"x:[0,100]"}, DType::float16);
  EXPECT_TRUE(says(told.fix("FN205"), "the sum on the way exceeds 65504")) << told.fix("FN205");
}

TEST(Findings, AnEmptyMeanIsAboutSizesNotValues) {
  const Told told(R"(graph g (x: float32[N, 4]) -> (y) {
      const one: int64[1] = {1}
      const big: int64[1] = {1000}
      const axis: int64[1] = {0}
      rest = Slice(x, one, big, axis)
      y = ReduceMean(rest) {axes = [0]} })");
  EXPECT_TRUE(says(told.text(), "operand 'rest' (float32[?, 4]) may have no elements")) << told.text();
  EXPECT_TRUE(says(told.fix("FN306"), "--shape"));
}

// Whoever calls the model may know better.
TEST(Advice, OperandsThatAreInputsCanBeDeclared) {
  for (const auto& [op, rule] :
       {std::pair("Log", "FN102"), {"Sqrt", "FN104"}, {"Acos", "FN107"}, {"Reciprocal", "FN114"}}) {
    const Told told("graph g (x: float32[4]) -> (y) { y = " + std::string(op) + "(x) }");
    EXPECT_TRUE(says(told.fix(rule), "--range 'x:[lo,hi]'")) << told.fix(rule);
  }
}

TEST(Findings, BoundsAreSaidAsTheyAreMeant) {
  EXPECT_EQ(unsafe_text({{-kInf, next_down(DType::float32, 0)}}, DType::float32), "< 0");
  EXPECT_EQ(unsafe_text({{-kInf, 0}}, DType::float32), "<= 0");
  EXPECT_EQ(unsafe_text({{next_up(DType::float16, 1), kInf}}, DType::float16), "> 1");
}

TEST(Findings, ThePathEndsWithWhatTheFindingSays) {
  const Told told("graph g (x: float32[4]) -> (y) { y = Exp(x) }", {"x:[-100,100]"});
  ASSERT_FALSE(told.alarm("FN201").path.empty());
  EXPECT_EQ(told.alarm("FN201").path.back().range, told.alarm("FN201").seen);
}

TEST(Findings, UnknownsStandUnderTheirCause) {
  const Told told(R"(graph g (x: float32[4]) -> (y, z) {
      a = my.MyOp(x)
      t = Tanh(a)
      y = Log(t)
      s = Sqrt(t)
      z = Div(x, s) })");
  const std::vector<AlarmGroup> groups = group(told.report);
  ASSERT_EQ(groups.size(), 1U) << told.text();
  EXPECT_EQ(groups.front().head->rule->code, "FN901");
  EXPECT_EQ(groups.front().others.size(), 4U) << "the quotient can overflow too; " << told.text();
  EXPECT_EQ(told.report.counts.unknown, 5U);
  EXPECT_EQ(told.report.counts.possible, 0U);
}

TEST(Findings, MissingWeightsAreOneLine) {
  const Told told(R"(graph g (x: float32[2, 4]) -> (y) {
      const w: float32[4, 4] = {... "external data file 'model.onnx.data' is missing"}
      const v: float32[4, 4] = {... "external data file 'model.onnx.data' is missing"}
      h = MatMul(x, w)
      a = MatMul(h, v)
      s = Sigmoid(a)
      y = Log(s) })");
  ASSERT_EQ(group(told.report).size(), 1U) << told.text();
  EXPECT_TRUE(says(told.text(), "weights of 2 tensors are missing (model.onnx.data): 3 sites unknown")) << told.text();
  EXPECT_EQ(told.report.counts.possible, 0U);
}

// Under a guard the range is that of the elements that are used.
TEST(Findings, GuardedRangesAreNotGivenAsThoseOfAllElements) {
  const Told told(R"(graph g (x: float32[4]) -> (y) {
      const zero: float32[] = {0}
      const big: float32[] = {3e38}
      above = Greater(x, zero)
      l = Log(x)
      b = Mul(l, big)
      y = Where(above, b, zero) })",
                  {"x:[-10,10]"});
  const Alarm& overflow = told.alarm("FN203");
  ASSERT_FALSE(overflow.path.empty()) << told.text();
  for (const Step& step : overflow.path) {
    EXPECT_TRUE(step.value != "l" || says(step.holds, "where")) << step.holds;
  }
}

}  // namespace
}  // namespace finity
