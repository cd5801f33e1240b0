#include "check/keep_search.h"

#include <gtest/gtest.h>

#include "formats/text/text.h"

namespace finity {
namespace {

std::vector<std::string> names(const Graph& graph, const NodeSet& nodes) {
  std::vector<std::string> result;
  for (const NodeId id : nodes) result.push_back(graph.node(id).name);
  return result;
}

KeepResult search(const Graph& graph, const char* range, DType target = DType::float16,
                  const KeepOptions& options = {}) {
  Contract contract;
  add_range(contract, range);
  return find_kept_nodes(graph, infer_types(graph), {}, contract, target, options);
}

Graph sum_of_squares() {
  return parse_graph(R"(opset 17
graph g (x: float32[64]) -> (y) {
  const axes: int64[1] = {0}
  const one: float32[] = {1}
  h = Tanh(x) @ "squash"
  q = Mul(x, x) @ "square"
  t = ReduceSum(q, axes) {keepdims = 1} @ "sum"
  d = Add(t, one) @ "shift"
  r = Sqrt(d) @ "root"
  y = Div(h, r) @ "divide"
})",
                     "g");
}

TEST(KeepSearch, NothingIsKeptWhereTheFormatIsWideEnough) {
  const Graph graph = sum_of_squares();
  const KeepResult small = search(graph, "x:[-1,1]");
  EXPECT_TRUE(small.proved && small.minimal) << small.why;
  EXPECT_TRUE(small.keep.empty());
  const KeepResult wide = search(graph, "x:[-1e6,1e6]", DType::bfloat16);
  EXPECT_TRUE(wide.proved) << wide.why;
  EXPECT_TRUE(wide.keep.empty());
}

TEST(KeepSearch, KeepsWhatOverflowsAndWhatMustTakeItsResult) {
  const Graph graph = sum_of_squares();
  const KeepResult result = search(graph, "x:[-100,100]");
  EXPECT_TRUE(result.proved && result.minimal) << result.why;
  // 64 * 100^2 = 640,000 needs float32 until the root brings it back to 800.
  EXPECT_EQ(names(graph, result.keep), (std::vector<std::string>{"sum", "shift", "root"}));
}

TEST(KeepSearch, WhatIsWrongAnywayIsExcused) {
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[4]) -> (y) { y = Log(x) @ \"log\" }", "g");
  const KeepResult result = search(graph, "x:[-1,1]");
  EXPECT_TRUE(result.proved) << result.why;
  EXPECT_EQ(result.excused, 1U);
  EXPECT_TRUE(result.keep.empty());
}

TEST(KeepSearch, SaysWhyItFails) {
  // The input itself does not fit: no node can help.
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[4]) -> (y) { y = Neg(x) @ \"negate\" }", "g");
  const KeepResult result = search(graph, "x:[-1e6,1e6]");
  EXPECT_FALSE(result.proved);
  EXPECT_NE(result.why, "");
  const KeepResult stopped = search(sum_of_squares(), "x:[-100,100]", DType::float16, {.max_runs = 2});
  EXPECT_FALSE(stopped.proved);
  EXPECT_EQ(stopped.why, "the search was stopped after 2 analyses");
}

}  // namespace
}  // namespace finity
