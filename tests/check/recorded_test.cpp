// Recorded tensors against ranges: what is compared, what is excused, what is found.
#include "check/recorded.h"

#include <gtest/gtest.h>

#include <cmath>

#include "check_support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

Checked model(const char* body, std::initializer_list<std::string_view> declared,
              const char* inputs = "x: float32[2]") {
  const std::string text = "opset 17\ngraph g (" + std::string(inputs) + ") -> (y) {\n" + body + "}\n";
  return checked(parse_graph(text, "test"), ranges(declared));
}

Datum floats(const std::vector<double>& values, DType dtype = DType::float32) {
  return from_elements<double>(dtype, {static_cast<std::int64_t>(values.size())}, values);
}

RecordedReport compared(const Checked& test, std::vector<std::pair<std::string, Datum>> values) {
  RecordedReport report;
  compare_recorded(test.graph, test.premises, test.analysis, {.where = "data", .values = std::move(values)}, report);
  return report;
}

std::string refusal(const Checked& test, std::vector<std::pair<std::string, Datum>> values) {
  try {
    compared(test, std::move(values));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recorded, ARunInsideItsRanges) {
  const Checked test = model("h = Mul(x, x)\n y = Relu(h)\n", {"x:[-5,5]"});
  const RecordedReport report =
      compared(test, {{"x", floats({1, 2})}, {"h", floats({1, 4})}, {"y", floats({1, 4})}, {"z", floats({9})}});
  EXPECT_EQ(report.runs, 1);
  EXPECT_EQ(report.tensors, 2U) << "h and y";
  EXPECT_EQ(report.elements, 4U);
  EXPECT_EQ(report.unmatched, std::vector<std::string>{"z"});
  EXPECT_TRUE(report.unrecorded.empty());
  EXPECT_TRUE(report.outside.empty());
}

TEST(Recorded, EveryFirstTensorOutsideIsNamedAndWhatFollowsIsCounted) {
  const Checked test = model("h = Mul(x, x)\n a = Add(h, h)\n b = Abs(x)\n y = Add(a, b)\n", {"x:[-5,5]"});
  const RecordedReport report =
      compared(test, {{"x", floats({1, 2})}, {"h", floats({1, 26})}, {"a", floats({2, 52})}, {"b", floats({6, 7})}});
  ASSERT_EQ(report.outside.size(), 2U);
  EXPECT_EQ(report.outside[0], "'h' of node producing 'h' (Mul): element [1] is 26, outside [0, 25]");
  EXPECT_EQ(report.outside[1], "'b' of node producing 'b' (Abs): element [0] is 6, outside [0, 5] (and 1 more of 2)");
  EXPECT_EQ(report.following, 1U) << "a";
  EXPECT_EQ(report.tensors, 0U);
}

TEST(Recorded, InputsOutsideTheContractPromiseNothing) {
  const Checked test = model("y = Relu(x)\n", {"x:[-5,5]"});
  EXPECT_EQ(refusal(test, {{"x", floats({1, 6})}, {"y", floats({1, 6})}}),
            "data: input 'x' element [1] is 6, outside [-5, 5]: the values were recorded outside the assumptions, so "
            "nothing is promised of them");
  EXPECT_NE(refusal(test, {{"x", floats({1, 2, 3})}}).find("has shape [3] but was taken to be [2]"), std::string::npos);
  EXPECT_NE(refusal(test, {{"q", floats({1})}}).find("none of its 1 names is in the model"), std::string::npos);
  const RecordedReport report = compared(test, {{"y", floats({1, 2})}});
  EXPECT_EQ(report.unrecorded, std::vector<std::string>{"x"});
}

TEST(Recorded, WeightsSizesAndOrdersAreAssumptionsToo) {
  const Checked weight = model("const w: float32[2] = {1, 2}\n y = Mul(x, w)\n", {"x:[0,1]"});
  EXPECT_EQ(compared(weight, {{"w", floats({1, 2})}}).runs, 1);
  EXPECT_NE(refusal(weight, {{"w", floats({1, 3})}}).find("weight 'w' element [1] is 3"), std::string::npos);
  const Checked open = model("y = Relu(x)\n", {"x:[0,1]"}, "x: float32[n]");
  EXPECT_EQ(compared(open, {{"x", floats({1})}}).runs, 1);
  EXPECT_NE(refusal(open, {{"x", floats({})}}).find("unknown sizes are assumed to be 1 to"), std::string::npos);
  Contract contract = ranges({"x:[0,9]"});
  add_order(contract, "x[1] >= x[0]", "test");
  const Checked ordered =
      checked(parse_graph("opset 17\ngraph g (x: float32[2]) -> (y) {\n y = Relu(x)\n}\n", "test"), contract);
  EXPECT_EQ(compared(ordered, {{"x", floats({1, 2})}}).runs, 1);
  EXPECT_NE(refusal(ordered, {{"x", floats({2, 1})}}).find("column 1 is below column 0"), std::string::npos);
}

TEST(Recorded, AFailureThatAFindingForetoldExcusesWhatFollows) {
  const Checked test = model("h = Log(x)\n y = Abs(h)\n", {"x:[0,5]"});
  const double inf = std::numeric_limits<double>::infinity();
  const RecordedReport report =
      compared(test, {{"x", floats({0, 1})}, {"h", floats({-inf, 0})}, {"y", floats({inf, 0})}});
  EXPECT_TRUE(report.outside.empty());
  EXPECT_EQ(report.skipped, 2U);
  // Nothing was unsafe: no excuse.
  EXPECT_EQ(compared(test, {{"x", floats({1, 2})}, {"h", floats({-inf, 0})}}).outside.size(), 1U);
  // Whether it was is not known: an excuse, but what is inside counts.
  const RecordedReport blind = compared(test, {{"h", floats({-inf, 0})}, {"y", floats({3, 3})}});
  EXPECT_EQ(blind.skipped, 1U);
  EXPECT_EQ(blind.tensors, 1U);
  EXPECT_TRUE(blind.outside.empty());
}

TEST(Recorded, NoFindingNoExcuse) {
  const Checked test = model("h = Log(x)\n y = Abs(h)\n", {"x:[1,5]"});
  const double nan = std::nan("");
  EXPECT_EQ(compared(test, {{"h", floats({nan, 0})}}).outside.size(), 1U);
  EXPECT_EQ(compared(test, {{"y", floats({nan, 0})}}).outside.size(), 1U) << "without its operand";
}

TEST(Recorded, WhatHappensInsideBodiesIsNotSeen) {
  const char* body =
      "y = If(c) {then_branch = graph () -> (a) {\n a = Log(x)\n}, else_branch = graph () -> (b) {\n b = Abs(x)\n}}\n";
  const char* inputs = "x: float32[2], c: bool[]";
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(compared(model(body, {"x:[0,5]"}, inputs), {{"y", floats({-inf, 0})}}).skipped, 1U);
  EXPECT_EQ(compared(model(body, {"x:[1,5]"}, inputs), {{"y", floats({-inf, 0})}}).outside.size(), 1U);
}

TEST(Recorded, WiderArraysStandForFormatsThatNumpyLacks) {
  const Checked test = model("y = Relu(x)\n", {"x:[0,5]"}, "x: bfloat16[2]");
  const RecordedReport report = compared(test, {{"x", floats({1, 2})}, {"y", floats({1, 2})}});
  EXPECT_EQ(report.tensors, 1U);
  EXPECT_EQ(report.outside, std::vector<std::string>{});
  EXPECT_EQ(compared(test, {{"y", floats({1, 1.0001})}}).outside.size(), 1U) << "no bfloat16 number";
}

// ---- what real runs showed -------------------------------------------------

bool holds(const Checked& test, const char* name, double x) { return test.range(name).contains(x); }

TEST(Recorded, LibrariesDifferInTheLastDigitsOfConstantsToo) {
  const Checked test = model(
      "const c: float32[2] = {-0.125, 3}\n const m: float32[2, 2] = {0.1, 0.2, 0.3, 0.4}\n"
      "e = Exp(c)\n p = MatMul(c, m)\n q = Mul(c, c)\n s = Add(x, e)\n t = Add(s, p)\n y = Add(t, q)\n",
      {"x:[0,1]"});
  const float e = std::exp(-0.125F);
  EXPECT_TRUE(holds(test, "e", std::nextafter(e, 0.0F)));
  EXPECT_TRUE(holds(test, "e", std::nextafter(std::exp(3.0F), 99.0F)));
  EXPECT_EQ(test.analysis.ranges[test.value("e").at()].exact, nullptr);
  EXPECT_TRUE(holds(test, "p", std::nextafter(-0.125F * 0.2F + 3 * 0.4F, 9.0F)));
  EXPECT_LT(test.range("e").hi, 20.1);
  ASSERT_NE(test.analysis.ranges[test.value("q").at()].exact, nullptr) << "one correctly rounded product";
  EXPECT_EQ(elements<double>(*test.analysis.ranges[test.value("q").at()].exact), (std::vector<double>{0.015625, 9}));
}

TEST(Recorded, WholeNumbersAndMovementAreFolded) {
  const Checked test = model(
      "const i: int64[] = {0}\n const n: int64[] = {4}\n const k: int64[] = {1}\n"
      "const a: float32[] = {0}\n const d: float32[] = {1}\n const h: float32[] = {0.1}\n"
      "w = Range(i, n, k)\n r = Cast(w) {to = 1}\n q = Range(a, d, h)\n c = Concat(r, q) {axis = 0}\n"
      "m = ReduceMax(c) {keepdims = 0}\n"
      "y = Add(x, m)\n",
      {"x:[0,1]"});
  EXPECT_NE(test.analysis.ranges[test.value("r").at()].exact, nullptr);
  EXPECT_EQ(test.analysis.ranges[test.value("q").at()].exact, nullptr) << "products of fractions are rounded";
}

// ONNX Runtime's kernels of recurrent ops: tanh reaches 1 + 10 u, sigmoid 1 + 2 u, and small arguments lose their
// digits.
TEST(Recorded, CellsOfRecurrentOpsAreCoarse) {
  const char* weights =
      "const r: float32[1, 3, 1] = {0, 0, 0}\n const w: float32[1, 3, 1] = {0, 0, 1}\n"
      "const b: float32[1, 6] = {-200, 0, 0, 0, 0, 0}\n";
  const Checked gru = model((std::string(weights) + "y, h = GRU(x, w, r, b) {hidden_size = 1}\n").c_str(),
                            {"x:[-50,50]"}, "x: float32[4, 1, 1]");
  EXPECT_TRUE(holds(gru, "y", 1 + 10 * 0x1p-24));
  EXPECT_TRUE(holds(gru, "y", -1 - 10 * 0x1p-24));
  EXPECT_LT(gru.range("y").hi, 1.0001);
  const Checked rnn =
      model("const w: float32[1, 1, 1] = {1}\n const r: float32[1, 1, 1] = {0}\n y = RNN(x, w, r) {hidden_size = 1}\n",
            {"x:[-1.5e-8,1]"}, "x: float32[4, 1, 1]");
  EXPECT_TRUE(holds(rnn, "y", -0x1p-24));
  const Checked lstm = model(
      "const w: float32[1, 4, 1] = {0, 1, 0, 1}\n const r: float32[1, 4, 1] = {0, 0, 0, 0}\n"
      "const b: float32[1, 8] = {200, 0, 200, 0, 0, 0, 0, 0}\n y, h, c = LSTM(x, w, r, b) {hidden_size = 1}\n",
      {"x:[0,50]"}, "x: float32[2, 1, 1]");
  EXPECT_TRUE(holds(lstm, "c", 2 + 0x1p-22)) << "the forget gate passes 1";
  EXPECT_LT(lstm.range("c").hi, 2.0001);
}

}  // namespace
}  // namespace finity
