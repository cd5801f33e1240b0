#include "check/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "check_support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

Checked small(const char* body, std::initializer_list<std::string_view> declared, const char* type = "float32[3, 4]") {
  const std::string text = "opset 17\ngraph g (x: " + std::string(type) + ") -> (y) {\n" + body + "}\n";
  return checked(parse_graph(text, "test"), ranges(declared));
}

VerifyReport verified(const Checked& test, int runs = 50) {
  return verify(test.graph, test.types, test.premises, test.analysis, {.runs = runs, .seed = 3});
}

std::string failure(const Checked& test) {
  try {
    verified(test);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A machine that flushes what Relu gives need not flush what it was given.
TEST(Verify, WhatIsHandedOnIsNotTheSameWhereItMayBeFlushed) {
  CheckOptions options;
  options.ranges.flush_subnormals = true;
  const auto is_same = [&](std::string_view range) {
    Checked test = small("c = Relu(x)\n y = Sub(x, c)\n", {range});
    test.analysis = analyze(test.graph, test.types, test.premises, options);
    EXPECT_EQ(failure(test), "no error");
    return test.analysis.ranges[test.value("c").at()].identity == test.value("x");
  };
  EXPECT_FALSE(is_same("x:[0,1e-37]"));
  EXPECT_TRUE(is_same("x:[0.1,1]"));
}

TEST(Verify, AModelThatIsRight) {
  const Checked test = small(
      "e = Exp(x)\n s = ReduceSum(e, a) {keepdims = 1}\n const a: int64[1] = {1}\n y = Div(e, s)\n", {"x:[-5,5]"});
  const VerifyReport report = verified(test);
  EXPECT_EQ(report.runs, 50);
  EXPECT_EQ(report.failed, 0);
  EXPECT_EQ(report.tensors, 150U);
  EXPECT_EQ(report.vacuous, 0U);
  EXPECT_EQ(report.skipped, 0U);
}

// Which branch runs is decided by a value that failed, as foretold: what the other one is taken to be says nothing.
TEST(Verify, ABranchThatRunsForAFailedCondition) {
  const Checked test = small(
      "a = Acos(x)\n m = ReduceMax(a) {keepdims = 0}\n const low: float32[] = {-1}\n c = Greater(m, low)\n"
      "y = If(c) {then_branch = graph () -> (p) { p = Relu(x) }, else_branch = graph () -> (q) { q = Neg(x) }}\n",
      {"x:[-5,5]"});
  EXPECT_GT(verified(test).skipped, 0U);
}

// ---- a wrong analysis must be found out ------------------------------------

TEST(Verify, ARangeThatIsTooSmall) {
  Checked test = small("h = Mul(x, x)\n y = Relu(h)\n", {"x:[-5,5]"});
  test.analysis.ranges[test.value("h").at()].cells[0].hi = 24;
  const std::string message = failure(test);
  EXPECT_NE(message.find("run 1 of seed 3"), std::string::npos) << message;
  EXPECT_EQ(message.substr(message.find("ver")),
            "verification failed: node producing 'h' (Mul): output 'h' element [0,0] is 25, outside [0, 24] "
            "(and 11 more of 12)");
}

TEST(Verify, OneCellThatIsTooSmall) {
  Checked test = small("y = Relu(x)\n", {"x:[0,5]"});
  AbsTensor& y = test.analysis.ranges[test.value("y").at()];
  y = uniform(test.types[test.value("y")], test.range("y"));
  y.cuts = {{}, {1, 3}};
  y.cells = {y.cells[0], Range{.lo = 0, .hi = 4}, y.cells[0]};
  const std::string message = failure(test);
  EXPECT_NE(message.find("outside [0, 4]"), std::string::npos) << message;
  EXPECT_TRUE(message.find(",1] is ") != std::string::npos || message.find(",2] is ") != std::string::npos) << message;
}

TEST(Verify, AFlagThatIsMissing) {
  Checked test = small("y = Log(x)\n", {"x:[0,5]"});
  EXPECT_EQ(failure(test), "no error") << "the finding foretold it";
  EXPECT_GT(verified(test).skipped, 0U);
  test.analysis.findings.clear();
  EXPECT_NE(failure(test).find("is -Inf, outside"), std::string::npos) << failure(test);
}

TEST(Verify, AFindingAboutSomethingElseExcusesNothing) {
  Checked test = small("y = Log(x)\n", {"x:[1,5]"});
  for (Finding& finding : test.analysis.findings) finding.verdict = Verdict::possible;
  test.analysis.ranges[test.value("y").at()].cells[0].hi = 1;
  EXPECT_NE(failure(test).find("outside"), std::string::npos) << "no operand was unsafe";
}

TEST(Verify, WrongShapesTypesElementsAndRelations) {
  Checked test = small("y = Relu(x)\n", {"x:[-1,1]"});
  AbsTensor& y = test.analysis.ranges[test.value("y").at()];
  const AbsTensor right = y;
  y.sizes[1] = 5;
  EXPECT_NE(failure(test).find("has shape [3,4] but was taken to be [3,5]"), std::string::npos) << failure(test);
  y = right;
  y.dtype = DType::float64;
  EXPECT_NE(failure(test).find("is float32 but was taken to be float64"), std::string::npos) << failure(test);
  y = right;
  y.exact = std::make_shared<const Tensor>(DType::float32, Dims{3, 4});
  EXPECT_NE(failure(test).find("known to be 0"), std::string::npos) << failure(test);
  y = right;
  y.identity = test.value("x");
  EXPECT_NE(failure(test).find("taken to be the same as 'x'"), std::string::npos) << failure(test);
  y = right;
  y.relations.push_back(AggregateBound{.source = {test.value("x")}, .of = Of::smallest, .order = Order::at_most});
  EXPECT_NE(failure(test).find("taken to be at most 'x' and is not"), std::string::npos) << failure(test);
  y = right;
  test.analysis.reached[test.value("y").at()] = false;
  EXPECT_NE(failure(test).find("never computed"), std::string::npos) << failure(test);
}

TEST(Verify, GuardsHoldOnlyWhereTheyAreTaken) {
  const Checked test =
      small("const zero: float32[] = {0}\n c = Greater(x, zero)\n l = Log(x)\n y = Where(c, l, zero)\n", {"x:[-5,5]"});
  ASSERT_NE(test.finding("l", "FN102"), nullptr);
  EXPECT_EQ(test.finding("l", "FN102")->verdict, Verdict::proved);
  EXPECT_EQ(failure(test), "no error");
}

TEST(Verify, RunsThatStopAreCounted) {
  const Checked test = checked(parse_graph(R"(opset 17
    graph g (x: float32[3], i: int64[2]) -> (y) { y = Gather(x, i) })",
                                           "test"),
                               ranges({"x:[0,1]", "i:[0,9]"}));
  const VerifyReport report = verified(test);
  EXPECT_GT(report.failed, 0);
  EXPECT_LT(report.failed, report.runs);
  EXPECT_NE(report.first_failure.find("Gather"), std::string::npos);
}

TEST(Verify, UnknownSizesAreDrawn) {
  const Checked test = small("y = MatMul(x, t)\n t = Transpose(x)\n", {"x:[-1,1]"}, "float32[N, K]");
  EXPECT_EQ(verified(test).failed, 0);
}

TEST(Verify, WeightsVaryToo) {
  Contract contract = ranges({"x:[-1,1]"});
  contract.weights = WeightMode::initial;
  const Graph graph = parse_graph(R"(opset 17
    graph g (x: float32[3]) -> (y) {
      const w: float32[3] = {1, 2, 3}
      y = Mul(x, w)
    })",
                                  "test");
  Checked test = checked(graph, contract);
  EXPECT_EQ(to_string(test.range("y")), "[-5, 5]");
  EXPECT_EQ(failure(test), "no error");
  test.analysis.ranges[test.value("y").at()].cells[0].hi = 4;
  EXPECT_NE(failure(test).find("outside"), std::string::npos) << "the weight was drawn, not taken from the file";
}

TEST(Verify, FailuresInsideLoopsGoOnOutside) {
  const Checked test = checked(parse_graph(R"(opset 17
    graph g (x: float32[2]) -> (z) {
      const trip: int64[] = {4}
      const go: bool[] = {true}
      y = Loop(trip, go, x) {
        body = graph b (i: int64[], k: bool[], state: float32[2]) -> (k2, next) {
          k2 = Identity(k)
          next = Log(state)
        }
      }
      z = Relu(y)
    })",
                                           "test"),
                               ranges({"x:[-3,30]"}));
  EXPECT_EQ(failure(test), "no error");
  EXPECT_GT(verified(test).skipped, 0U);
}

// ---- drawing ---------------------------------------------------------------

Drawn drawn(const Checked& test, int number, std::uint64_t seed = 1) {
  Rng rng(seed);
  return draw_inside(test.graph, test.types, test.premises, rng, number);
}

TEST(Draw, EndsAndSpecialValues) {
  const Checked test = premises_of(parse_graph("opset 17\ngraph g (x: float32[400]) -> (y) { y = Relu(x) }", "test"),
                                   ranges({"x:[-inf,7]"}));
  const auto values = [&](int number) { return elements<double>(*drawn(test, number).inputs.at("x").tensor()); };
  EXPECT_EQ(values(1)[0], -static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(values(2)[0], 7);
  const std::vector<double> mixed = values(3);
  for (const double wanted : {7.0, 0.0, 1.0, -kInf, std::pow(2.0, -149)}) {
    EXPECT_NE(std::ranges::find(mixed, wanted), mixed.end()) << wanted;
  }
  for (const double x : mixed) EXPECT_TRUE(test.premise("x").hull().contains(x)) << x;
}

TEST(Draw, RelationsHold) {
  const char* text = R"(opset 17
    graph g (a: float32[5, 3], b: float32[5, 3], m: int64[5, 3], p: float16[5, 9], box: int32[6, 4], v: float32[9])
      -> (y) { y = Sub(b, a) })";
  Contract contract = ranges({"a:[-3,9]", "b:[-5,5]", "box:[0,100]"});
  contract.inputs.push_back({.pattern = "m", .one_true_axis = 1});
  contract.inputs.push_back({.pattern = "p", .sums_to_one_axis = 1});
  contract.inputs.push_back({.pattern = "v", .values = {-1, 1}});
  add_order(contract, "b >= a", "here");
  add_order(contract, "box[3] >= box[2]", "here");
  add_order(contract, "box[2] >= box[0]", "here");
  const Checked test = premises_of(parse_graph(text, "test"), contract);
  for (int number = 0; number < 12; ++number) {
    const Drawn inputs = drawn(test, number, static_cast<std::uint64_t>(number));
    const auto values = [&](const char* name) { return elements<double>(*inputs.inputs.at(name).tensor()); };
    const std::vector<double> a = values("a");
    const std::vector<double> b = values("b");
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_GE(b[i], a[i]);
    const std::vector<double> m = values("m");
    for (std::size_t row = 0; row < 15; row += 3) EXPECT_EQ(std::max({m[row], m[row + 1], m[row + 2]}), 1);
    const std::vector<double> p = values("p");
    for (std::size_t row = 0; row < 45; row += 9) {
      double sum = 0;
      for (std::size_t i = row; i < row + 9; ++i) sum += p[i];
      EXPECT_NEAR(sum, 1, 0.02);
    }
    const std::vector<double> box = values("box");
    for (std::size_t row = 0; row < 24; row += 4) {
      EXPECT_GE(box[row + 3], box[row + 2]);
      EXPECT_GE(box[row + 2], box[row]);
    }
    for (const double x : values("v")) EXPECT_NE(x, 0) << "0 is not one of the values";
  }
}

}  // namespace
}  // namespace finity
