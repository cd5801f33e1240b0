// What declared relations, masks and normalised rows let the checker prove.
#include <gtest/gtest.h>

#include "check/contract.h"
#include "check_support.h"

namespace finity {
namespace {

const char* kDifference = R"(opset 17
  graph g (a: float32[4], b: float32[4], one: float32[4]) -> (y) {
    d = Sub(b, a)
    e = Add(d, one)
    y = Log(e)
  })";

TEST(Proofs, OrderedInputs) {
  Contract contract = ranges({"a:[0,10]", "b:[0,10]", "one:[1,1]"});
  EXPECT_EQ(checked(parse_graph(kDifference, "test"), contract).finding("y", "FN102")->verdict, Verdict::possible);
  add_order(contract, "b >= a", "here");
  EXPECT_EQ(checked(parse_graph(kDifference, "test"), contract).finding("y", "FN102")->verdict, Verdict::proved);
  contract.orders.clear();
  add_order(contract, "a >= b", "here");
  EXPECT_EQ(checked(parse_graph(kDifference, "test"), contract).finding("y", "FN102")->verdict, Verdict::possible);
}

const char* kBoxes = R"(opset 17
  graph g (boxes: float32[N, 4]) -> (y) {
    left, top, right, bottom = Split(boxes) {axis = 1, num_outputs = 4}
    w = Sub(right, left)
    y = Sqrt(w)
  })";

TEST(Proofs, OrderedColumns) {
  Contract contract = ranges({"boxes:[0,640]"});
  EXPECT_EQ(checked(parse_graph(kBoxes, "test"), contract).finding("y", "FN104")->verdict, Verdict::possible);
  add_order(contract, "boxes[2] >= boxes[0]", "here");
  EXPECT_EQ(checked(parse_graph(kBoxes, "test"), contract).finding("y", "FN104")->verdict, Verdict::proved);
  contract.orders.clear();
  add_order(contract, "boxes[3] >= boxes[0]", "here");
  EXPECT_EQ(checked(parse_graph(kBoxes, "test"), contract).finding("y", "FN104")->verdict, Verdict::possible);
}

// Cases draw inputs, for which a rank is needed: testdata/check has those with one.
TEST(Proofs, PartsOfWhatHasNoKnownRankMayBeEmpty) {
  const char* text = R"(opset 18
  graph g (x: float32[...]) -> (m, n, o, p) {
    const one: int64[1] = {1}
    const zero: int64[1] = {0}
    const end: int64[1] = {9223372036854775807}
    const pads: int64[2] = {-1, 0}
    a = Slice(x, one, end, zero)
    m = ReduceMean(a, zero)
    b, c = Split(x) {axis = 0, num_outputs = 2}
    n = ReduceMean(c, zero)
    d = Pad(x, pads)
    o = ReduceMean(d, zero)
    p = ReduceMean(x, zero)
  })";
  const Checked result = checked(parse_graph(text, "test"), ranges({"x:[1,2]"}));
  for (const char* node : {"m", "n", "o"}) {
    const Finding* finding = result.finding(node, "FN306");
    ASSERT_NE(finding, nullptr) << node;
    EXPECT_EQ(finding->verdict, Verdict::possible) << node;
  }
  EXPECT_EQ(result.finding("p", "FN306"), nullptr);
}

TEST(Proofs, MasksWithATrueElementInEveryRow) {
  const char* text = R"(opset 17
    graph g (x: float32[2, 8], m: bool[2, 8]) -> (y) {
      const low: float32[] = {-inf}
      s = Where(m, x, low)
      y = Softmax(s)
    })";
  Contract contract = ranges({"x:[-3,3]"});
  EXPECT_EQ(checked(parse_graph(text, "test"), contract).finding("y", "FN301")->verdict, Verdict::possible);
  contract.inputs.push_back({.pattern = "m", .one_true_axis = 1});
  EXPECT_EQ(checked(parse_graph(text, "test"), contract).finding("y", "FN301")->verdict, Verdict::proved);
  contract.inputs.back().one_true_axis = 0;
  EXPECT_EQ(checked(parse_graph(text, "test"), contract).finding("y", "FN301")->verdict, Verdict::possible);
}

TEST(Proofs, NormalisedRows) {
  const char* text = R"(opset 17
    graph g (p: float32[2, 8]) -> (y) {
      const axis: int64[1] = {1}
      s = ReduceSum(p, axis)
      y = Log(s)
    })";
  Contract contract = ranges({"p:[0,1]"});
  EXPECT_EQ(checked(parse_graph(text, "test"), contract).finding("y", "FN102")->verdict, Verdict::possible);
  contract.inputs.push_back({.pattern = "p", .sums_to_one_axis = 1});
  EXPECT_EQ(checked(parse_graph(text, "test"), contract).finding("y", "FN102")->verdict, Verdict::proved);
}

}  // namespace
}  // namespace finity
