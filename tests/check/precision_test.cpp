#include "check/precision.h"

#include <gtest/gtest.h>

#include "check_support.h"

namespace finity {
namespace {

PrecisionPlan plan(const char* text, std::initializer_list<std::string_view> declared, DType target = DType::float16) {
  const Graph graph = parse_graph(text, "test");
  return plan_precision(graph, infer_types(graph), target, ranges(declared));
}

using Names = std::vector<std::string>;

TEST(Precision, NothingIsKeptWhereEverythingFits) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      s = Mul(x, x) @ "square"
      y = Exp(s) @ "exp"
    })",
                                    {"x:[-3,3]"});
  EXPECT_TRUE(result.proved);
  EXPECT_TRUE(result.minimal);
  EXPECT_EQ(result.names, Names{});
}

TEST(Precision, AnOverflowThatIsScaledBack) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      const small: float32[] = {0.001}
      a = Relu(x) @ "relu"
      s = Mul(a, a) @ "square"
      t = Mul(s, small) @ "scale"
      u = Add(t, t) @ "double"
      y = Sqrt(u) @ "root"
    })",
                                    {"x:[-1000,1000]"});
  EXPECT_TRUE(result.proved);
  EXPECT_TRUE(result.as_good);
  EXPECT_TRUE(result.minimal);
  EXPECT_EQ(result.names, (Names{"square", "scale"})) << "1e6 exists only between them";
  EXPECT_TRUE(result.left.empty());
}

TEST(Precision, AnEpsilonThatVanishes) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      const eps: float32[] = {1e-9}
      s = Mul(x, x) @ "square"
      t = Add(s, eps) @ "add"
      y = Log(t) @ "log"
      z = Relu(y) @ "relu"
    })",
                                    {"x:[-3,3]"});
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"add", "log"}));
}

TEST(Precision, NodesWithoutANameAreCalledByTheirOutput) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y) {
      s = Mul(x, x)
      const small: float32[] = {0.001}
      y = Mul(s, small)
    })",
                                    {"x:[-1000,1000]"});
  EXPECT_EQ(result.names, (Names{"s", "y"}));
}

TEST(Precision, WhatTheOriginalLacksCannotBeRepaired) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[2]) -> (y, z) {
      y = Log(x) @ "log"
      z = Mul(x, x) @ "square"
    })",
                                    {"x:[-1000,1000]"});
  EXPECT_FALSE(result.proved);
  EXPECT_TRUE(result.as_good);
  EXPECT_EQ(result.names, Names{"square"});
  ASSERT_EQ(result.left.size(), 1U);
  EXPECT_EQ(result.left[0].rule, "FN102");
}

TEST(Precision, ConstantsThatBecomeInfinite) {
  const PrecisionPlan result = plan(R"(opset 17
    graph g (x: float32[4, 8], m: bool[4, 8]) -> (y) {
      const low: float32[] = {-1e9}
      s = Where(m, x, low) @ "where"
      y = Softmax(s) @ "softmax"
    })",
                                    {"x:[-3,3]"});
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"where", "softmax"}));
}

TEST(Precision, ALongChainOfLargeValues) {
  std::string text =
      "opset 17\ngraph g (x: float32[2]) -> (y) {\n const one: float32[] = {1}\n const k: float32[] = {1e-6}\n";
  text += " v0 = Mul(x, x) @ \"n0\"\n";
  for (int i = 1; i < 40; ++i) {
    text += " v" + std::to_string(i) + " = Add(v" + std::to_string(i - 1) + ", one) @ \"n" + std::to_string(i) + "\"\n";
  }
  text += " w = Mul(v39, k) @ \"last\"\n y = Relu(w) @ \"relu\"\n}";
  const PrecisionPlan result = plan(text.c_str(), {"x:[-1000,1000]"});
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names.size(), 41U);
}

TEST(Precision, InsideLoops) {
  const PrecisionPlan result = plan(R"(opset 17
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
                                    {"x:[-1000,1000]"});
  EXPECT_TRUE(result.proved);
  EXPECT_EQ(result.names, (Names{"square", "scale"}));
}

TEST(BlockList, IsAPythonList) {
  EXPECT_EQ(block_list({}), "[]");
  EXPECT_EQ(block_list({"a", "/m/b_1"}), "['a', '/m/b_1']");
  EXPECT_EQ(block_list({"it's", "back\\slash"}), "[\"it's\", 'back\\\\slash']");
}

}  // namespace
}  // namespace finity
