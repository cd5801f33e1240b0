// From a finding to its cause: paths, what is grouped under what, and what is not known.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/check_graph.h"
#include "formats/text/text.h"

namespace finity {
namespace {

struct Checked {
  CheckedGraph model;

  explicit Checked(const std::string& text, std::initializer_list<const char*> ranges = {}, DType target = {}) {
    Contract contract;
    for (const char* range : ranges) add_range(contract, range);
    GraphCheckOptions options;
    options.target = target;
    model = check_graph(parse_graph("opset 17\n" + text, "g"), contract, options);
  }

  int index_of(std::string_view rule, std::string_view output = {}) const {
    const auto& findings = model.analysis.findings;
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (findings[i].rule != rule || findings[i].verdict == Verdict::proved) continue;
      if (output.empty()) return static_cast<int>(i);
      const Node* node = findings[i].node.valid() ? &model.graph.node(findings[i].node) : nullptr;
      if (node != nullptr && model.graph.value(node->outputs.front()).name == output) return static_cast<int>(i);
    }
    return -1;
  }

  const Finding& finding(std::string_view rule, std::string_view output = {}) const {
    static const Finding kNone;
    const int index = index_of(rule, output);
    return index < 0 ? kNone : model.analysis.findings[static_cast<std::size_t>(index)];
  }

  std::vector<std::string> path(std::string_view rule) const {
    std::vector<std::string> names;
    for (const ValueId id : finding(rule).path) names.push_back(model.graph.value(id).name);
    return names;
  }
};

using Names = std::vector<std::string>;

TEST(Causes, AMaskedSoftmaxLeadsToTheMaskAndTheInfinity) {
  const Checked checked(R"(graph g (scores: float32[2, 4], mask: int64[2, 4]) -> (p) {
      const none: float32[] = {-inf}
      keep = Cast(mask) {to = 9}
      masked = Where(keep, scores, none)
      p = Softmax(masked) })",
                        {"scores:[-50,50]", "mask:[0,1]"});
  EXPECT_EQ(checked.path("FN301"), (Names{"mask", "keep", "none", "masked"}));
  EXPECT_EQ(checked.finding("FN301").from_end, -1) << "zeros mask";
}

TEST(Causes, MasksAreFollowedThroughWholeNumbers) {
  const Checked checked(R"(graph g (scores: float32[2, 4, 8, 8], mask: int64[2, 8]) -> (p) {
      const axes: int64[2] = {1, 2}
      const zero: int64[] = {0}
      const none: float32[] = {-inf}
      u = Unsqueeze(mask, axes)
      hidden = Equal(u, zero)
      s = Where(hidden, none, scores)
      p = Softmax(s) })",
                        {"scores:[-50,50]", "mask:[0,1]"});
  EXPECT_EQ(checked.path("FN301"), (Names{"mask", "u", "hidden", "none", "s"}));
  EXPECT_EQ(checked.finding("FN301").from_end, -1) << "zeros mask";
  const Checked two(R"(graph g (scores: float32[2, 8], a: bool[2, 8], b: bool[2, 8]) -> (p) {
      const none: float32[] = {-inf}
      both = And(a, b)
      s = Where(both, scores, none)
      p = Softmax(s) })",
                    {"scores:[-50,50]"});
  EXPECT_EQ(two.path("FN301").size(), 4U);
  EXPECT_EQ(two.finding("FN301").from_end, 0) << "rows that a and b leave to each other are masked by neither alone";
}

TEST(Causes, AnAdditiveMaskIsFollowedNotTheScores) {
  const Checked checked(R"(graph g (scores: float32[2, 4], bias: float32[2, 4]) -> (p) {
      s = Add(scores, bias)
      p = Softmax(s) })",
                        {"scores:[-5000,5000]", "bias:[-inf,0]"});
  EXPECT_EQ(checked.path("FN301"), (Names{"bias", "s"}));
}

TEST(Causes, ADivisionIsFollowedAlongTheDivisor) {
  const Checked zero(R"(graph g (x: float32[4], a: float32[4], b: float32[4]) -> (y) {
      n = Mul(x, x)
      d = Sub(a, b)
      y = Div(n, d) })",
                     {"x:[-1e9,1e9]", "a:[1,2]", "b:[0,1]"});
  EXPECT_EQ(zero.path("FN101").back(), "d");
  EXPECT_NE(zero.path("FN101").front(), "x");
  const Checked tiny(R"(graph g (x: float32[4], d: float32[4]) -> (y) {
      n = Mul(x, x)
      y = Div(n, d) })",
                     {"x:[-100,100]", "d:[1e-38,1]"});
  EXPECT_EQ(tiny.path("FN208"), (Names{"d", "y"}));
}

TEST(Causes, TheOperandThatCanBeNegativeIsFollowed) {
  const Checked checked(R"(graph g (wide: float32[4], narrow: float32[4]) -> (y) {
      const far: float32[] = {2000}
      w = Add(wide, far)
      s = Min(w, narrow)
      y = Log(s) })",
                        {"wide:[-1000,1000]", "narrow:[-1,1]"});
  EXPECT_EQ(checked.path("FN102"), (Names{"narrow", "s"}));
}

// The epsilon that is zero in float16 is part of the way to the division by zero.
TEST(Causes, AConstantThatTheFormatLosesExplainsWhatFollows) {
  const Checked flushed(R"(graph g (x: float32[4]) -> (y) {
      const eps: float32[] = {1e-9}
      s = Mul(x, x)
      d = Add(s, eps)
      y = Div(x, d) })",
                        {"x:[-1,1]"}, DType::float16);
  const int constant = flushed.index_of("FN404");
  ASSERT_GE(constant, 0);
  EXPECT_EQ(flushed.finding("FN101").root, constant);
  const Checked infinite(R"(graph g (scores: float32[2, 4], mask: bool[2, 4]) -> (p) {
      const none: float32[] = {-1e9}
      masked = Where(mask, scores, none)
      p = Softmax(masked) })",
                         {"scores:[-50,50]"}, DType::float16);
  ASSERT_GE(infinite.index_of("FN403"), 0);
  EXPECT_EQ(infinite.finding("FN301").root, infinite.index_of("FN403"));
}

TEST(Causes, AnInfiniteWeightExplainsTheNan) {
  const Checked checked(R"(graph g (x: float32[4]) -> (y) {
      const c: float32[4] = {1, 2, inf, 4}
      y = Mul(x, c) })",
                        {"x:[-3,3]"});
  ASSERT_GE(checked.index_of("FN402"), 0);
  EXPECT_EQ(checked.finding("FN303").root, checked.index_of("FN402"));
}

TEST(Causes, PathsGoIntoAndOutOfBodies) {
  const Checked checked(R"(graph g (x: float32[4], c: bool[]) -> (y) {
      r = If(c) {
        then_branch = graph t () -> (a) { a = Relu(x) },
        else_branch = graph e () -> (b) { const one: float32[4] = {1, 1, 1, 1}
                                          b = Identity(one) } }
      y = Log(r) })",
                        {"x:[-3,3]"});
  EXPECT_EQ(checked.path("FN102"), (Names{"x", "a", "r"}));
}

// Random numbers take only a shape from their operand; a dropped-out value is still that value.
TEST(Causes, RandomNumbersHaveNoCause) {
  const Checked random(R"(graph g (x: float32[4]) -> (y) {
      u = RandomUniformLike(x)
      y = Log(u) })",
                       {"x:[-3,3]"});
  EXPECT_EQ(random.path("FN102"), (Names{"u"}));
  const Checked dropped(R"(graph g (x: float32[4]) -> (y) {
      d = Dropout(x)
      y = Log(d) })",
                        {"x:[-3,3]"});
  EXPECT_EQ(dropped.path("FN102"), (Names{"x", "d"}));
}

TEST(Causes, WhatIsNotModelledIsWhereThePathStarts) {
  const Checked checked(R"(graph g (x: float32[4]) -> (y) {
      a: float32[4] = my.MyOp(x)
      b = Neg(a)
      y = Log(b) })",
                        {"x:[1,2]"});
  EXPECT_EQ(checked.finding("FN102").verdict, Verdict::unknown);
  EXPECT_EQ(checked.finding("FN102").root, checked.index_of("FN901"));
  EXPECT_EQ(checked.path("FN102"), (Names{"a", "b"}));
}

TEST(Causes, GuardedValuesHaveARangeForAllElementsToo) {
  const Checked checked(R"(graph g (x: float32[4]) -> (y) {
      const zero: float32[] = {0}
      above = Greater(x, zero)
      l = Log(x)
      y = Where(above, l, zero) })",
                        {"x:[-10,10]"});
  EXPECT_EQ(checked.index_of("FN102"), -1) << "proved under the guard";
  const Analysis& analysis = checked.model.analysis;
  ASSERT_EQ(analysis.conditional.size(), 1U);
  const auto& [value, conditional] = *analysis.conditional.begin();
  EXPECT_EQ(checked.model.graph.value(value).name, "l");
  EXPECT_TRUE(analysis.ranges[value.at()].hull().nan);
  EXPECT_TRUE(analysis.ranges[value.at()].hull().ninf);
  EXPECT_FALSE(conditional.range.hull().nan);
  EXPECT_FALSE(analysis.used(value).hull().ninf);
  EXPECT_EQ(checked.model.graph.node(conditional.select).op_type, "Where");
}

// Where the select does not look, a product is subnormal, and a machine that flushes makes it zero.
TEST(Causes, GuardedValuesAreFlushedWhereTheGuardDoesNotHold) {
  Contract contract;
  add_range(contract, "x:[0.001,1]");
  GraphCheckOptions options;
  options.analysis.ranges.flush_subnormals = true;
  const CheckedGraph checked = check_graph(parse_graph(R"(opset 17
    graph g (x: float32[4]) -> (y) {
      const half: float32[] = {0.5}
      const small: float32[] = {1e-37}
      above = Greater(x, half)
      p = Mul(x, small)
      y = Where(above, p, half) })",
                                                       "g"),
                                           contract, options);
  ASSERT_EQ(checked.analysis.conditional.size(), 1U);
  const auto& [value, conditional] = *checked.analysis.conditional.begin();
  EXPECT_EQ(checked.graph.value(value).name, "p");
  EXPECT_TRUE(checked.analysis.ranges[value.at()].hull().contains(0.0));
  EXPECT_FALSE(conditional.range.hull().contains(0.0)) << "all products are normal numbers there";
}

// One finding for all missing weights; what depends on them is unknown, what does not is judged.
TEST(Causes, MissingWeightsAreOneCause) {
  const Checked checked(R"(graph g (x: float32[2, 4]) -> (y, z) {
      const w: float32[4, 4] = {...}
      const v: float32[4, 4] = {...}
      h = MatMul(x, w)
      a = MatMul(h, v)
      s = Sigmoid(a)
      y = Log(s)
      r = Relu(x)
      z = Log(r) })",
                        {"x:[-1,1]"});
  const int cause = checked.index_of("FN904");
  ASSERT_GE(cause, 0);
  for (const char* output : {"h", "a"}) {
    EXPECT_EQ(checked.finding("FN204", output).verdict, Verdict::unknown) << output;
    EXPECT_EQ(checked.finding("FN204", output).root, cause) << output;
  }
  EXPECT_EQ(checked.finding("FN102", "y").verdict, Verdict::unknown);
  EXPECT_EQ(checked.finding("FN102", "z").verdict, Verdict::possible);
  EXPECT_NE(checked.finding("FN904").reason.find("2 tensors"), std::string::npos);
  EXPECT_NE(checked.finding("FN904").reason.find("3 sites unknown"), std::string::npos);
}

TEST(Causes, AMissingVarianceIsNotNegative) {
  const Checked checked(R"(graph g (x: float32[1, 2, 4]) -> (y) {
      const scale: float32[2] = {1, 1}
      const bias: float32[2] = {0, 0}
      const mean: float32[2] = {0, 0}
      const variance: float32[2] = {...}
      y = BatchNormalization(x, scale, bias, mean, variance) })",
                        {"x:[-1,1]"});
  EXPECT_EQ(checked.index_of("FN305"), -1);
}

}  // namespace
}  // namespace finity
