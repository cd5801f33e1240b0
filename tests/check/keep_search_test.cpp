#include "check/keep_search.h"

#include <gmock/gmock.h>
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
}

// Without time for single steps the list is longer than it need be, and proved all the same.
TEST(KeepSearch, CutOffItGivesAnUpperBound) {
  const Graph graph = sum_of_squares();
  for (const KeepOptions& options : {KeepOptions{.max_runs = 2}, KeepOptions{.time_limit = 1e-9}}) {
    const KeepResult bound = search(graph, "x:[-100,100]", DType::float16, options);
    EXPECT_TRUE(bound.proved) << bound.why;
    EXPECT_FALSE(bound.minimal);
    EXPECT_LE(bound.runs, 4);
    const std::vector<std::string> kept = names(graph, bound.keep);
    for (const char* needed : {"sum", "shift", "root"}) EXPECT_THAT(kept, testing::Contains(needed));
    EXPECT_THAT(kept, testing::Not(testing::Contains("squash")));  // reads and feeds nothing that is too large
  }
  // What nothing helps against, nothing helps against in a hurry either.
  const Graph negate = parse_graph("opset 17\ngraph g (x: float32[4]) -> (y) { y = Neg(x) @ \"negate\" }", "g");
  const KeepResult none = search(negate, "x:[-1e6,1e6]", DType::float16, {.max_runs = 2});
  EXPECT_FALSE(none.proved);
  EXPECT_LE(none.runs, 4);
  EXPECT_TRUE(none.why.starts_with("the search was stopped after ")) << none.why;
}

// ---- what is kept ----------------------------------------------------------

using Names = std::vector<std::string>;

struct Plan : KeepResult {
  Names names;
};

Plan plan(const std::string& text, const char* range) {
  const Graph graph = parse_graph(text, "g");
  Plan result;
  static_cast<KeepResult&>(result) = search(graph, range);
  result.names = names(graph, result.keep);
  return result;
}

TEST(KeepPlan, NothingIsKeptWhereEverythingFits) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      s = Mul(x, x) @ "square"
      y = Exp(s) @ "exp"
    })",
                           "x:[-3,3]");
  EXPECT_TRUE(result.proved);
  EXPECT_TRUE(result.minimal);
  EXPECT_EQ(result.names, Names{});
}

TEST(KeepPlan, AnOverflowThatIsScaledBack) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      const small: float32[] = {0.001}
      a = Relu(x) @ "relu"
      s = Mul(a, a) @ "square"
      t = Mul(s, small) @ "scale"
      u = Add(t, t) @ "double"
      y = Sqrt(u) @ "root"
    })",
                           "x:[-1000,1000]");
  EXPECT_TRUE(result.proved);
  EXPECT_TRUE(result.minimal);
  EXPECT_EQ(result.names, (Names{"square", "scale"})) << "1e6 exists only between them";
}

TEST(KeepPlan, AnEpsilonThatVanishes) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      const eps: float32[] = {1e-9}
      s = Mul(x, x) @ "square"
      t = Add(s, eps) @ "add"
      y = Log(t) @ "log"
      z = Relu(y) @ "relu"
    })",
                           "x:[-3,3]");
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"add", "log"}));
}

TEST(KeepPlan, ProducersOfAKeptNode) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      s = Mul(x, x) @ "square"
      const small: float32[] = {0.001}
      y = Mul(s, small) @ "scale"
    })",
                           "x:[-1000,1000]");
  EXPECT_EQ(result.names, (Names{"square", "scale"}));
}

TEST(KeepPlan, WhatTheOriginalLacksCannotBeRepaired) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y, z) {
      y = Log(x) @ "log"
      z = Mul(x, x) @ "square"
    })",
                           "x:[-1000,1000]");
  EXPECT_TRUE(result.proved) << "as good as the original";
  EXPECT_EQ(result.names, Names{"square"});
  EXPECT_EQ(result.excused, 1U);
}

TEST(KeepPlan, ConstantsThatBecomeInfinite) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[4, 8], m: bool[4, 8]) -> (y) {
      const low: float32[] = {-1e9}
      s = Where(m, x, low) @ "where"
      y = Softmax(s) @ "softmax"
    })",
                           "x:[-3,3]");
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"where", "softmax"}));
}

TEST(KeepPlan, ALongChainOfLargeValues) {
  std::string text =
      "opset 17\ngraph g (x: float32[2]) -> (y) {\n const one: float32[] = {1}\n const k: float32[] = {1e-6}\n";
  text += " v0 = Mul(x, x) @ \"n0\"\n";
  for (int i = 1; i < 40; ++i) {
    text += " v" + std::to_string(i) + " = Add(v" + std::to_string(i - 1) + ", one) @ \"n" + std::to_string(i) + "\"\n";
  }
  text += " w = Mul(v39, k) @ \"last\"\n y = Relu(w) @ \"relu\"\n}";
  const Plan result = plan(text, "x:[-1000,1000]");
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names.size(), 41U);
}

// Whoever asks for the shape of a large value does not care about its format, and integers are not converted.
TEST(KeepPlan, OnlyNodesThatComputeFloats) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[n, 4]) -> (y) {
      const small: float32[] = {0.001}
      const axis: int64[] = {0}
      const one: int64[] = {1}
      s = Mul(x, x) @ "square"
      d = Shape(s) @ "shape"
      e = Size(s) @ "size"
      r = Mul(d, one) @ "integers"
      t = Reshape(s, r) @ "reshape"
      u = Mul(t, small) @ "scale"
      k = Cast(e) {to = 7} @ "cast"
      c = Cast(k) {to = 1} @ "count"
      w = Tanh(c) @ "tanh"
      y = Add(u, w) @ "add"
    })",
                           "x:[-1000,1000]");
  EXPECT_TRUE(result.proved && result.minimal) << result.why;
  EXPECT_EQ(result.names, (Names{"square", "reshape", "scale", "count", "tanh"}));
}

// A normalisation after every step: the square overflows, and what follows from that must not be kept with it.
TEST(KeepPlan, ConsequencesAreNotKept) {
  std::string text =
      "opset 17\ngraph g (x: float32[2, 8]) -> (y) {\n const two: float32[] = {2}\n const eps: float32[] = {1e-5}\n"
      " const k: float32[] = {300}\n v0 = Mul(x, k) @ \"start\"\n";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    text += " m" + n + " = ReduceMean(v" + n + ") {axes = [1]} @ \"mean" + n + "\"\n";
    text += " d" + n + " = Sub(v" + n + ", m" + n + ") @ \"centre" + n + "\"\n";
    text += " p" + n + " = Pow(d" + n + ", two) @ \"square" + n + "\"\n";
    text += " q" + n + " = ReduceMean(p" + n + ") {axes = [1]} @ \"variance" + n + "\"\n";
    text += " e" + n + " = Add(q" + n + ", eps) @ \"eps" + n + "\"\n";
    text += " r" + n + " = Sqrt(e" + n + ") @ \"root" + n + "\"\n";
    text += " z" + n + " = Div(d" + n + ", r" + n + ") @ \"divide" + n + "\"\n";
    text += " v" + std::to_string(i + 1) + " = Mul(z" + n + ", k) @ \"scale" + n + "\"\n";
  }
  text += " y = Relu(v6) @ \"relu\"\n}";
  const Plan result = plan(text, "x:[-1,1]");
  EXPECT_TRUE(result.proved && result.minimal) << result.why;
  Names expected;
  for (int i = 0; i < 6; ++i) {
    for (const char* name : {"square", "variance", "eps", "root", "divide"}) {
      expected.push_back(name + std::to_string(i));
    }
  }
  EXPECT_EQ(result.names, expected);
  EXPECT_LT(result.runs, 40);
}

TEST(KeepPlan, InsideLoops) {
  const Plan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      const trip: int64[] = {3}
      const go: bool[] = {true}
      y = Loop(trip, go, x) {
        body = graph b (i: int64[], k: bool[], state: float32[2]) -> (k2, next) {
          k2 = Not(stop)
          const stop: bool[] = {false}
          const small: float32[] = {1e-5}
          t = Mul(state, state) @ "square"
          next = Mul(t, small) @ "scale"
        }
      } @ "loop"
    })",
                           "x:[-1000,1000]");
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"square", "scale"}));
}

}  // namespace
}  // namespace finity
