// Shapes as values: which elements survive arithmetic when a dimension is symbolic.
#include "ops/shared/partial_ints.h"

#include <gtest/gtest.h>

#include "formats/text/text.h"
#include "types/infer.h"

namespace finity {
namespace {

// The type that inference gives the graph's only output, as text.
std::string output_type(const std::string& text) {
  const Graph graph = parse_graph(text, "test");
  return to_string(graph, infer_types(graph)[graph.main().outputs.front()]);
}

// ConstantOfShape turns the computed elements into dimensions: s is the shape [N, 3, 4], k is given.
std::string shaped_by(const std::string& k, const std::string& statements) {
  return output_type("opset 17\ngraph g (x: float32[N, 3, 4]) -> (z) {\n  const k = " + k + "\n  s = Shape(x)\n  " +
                     statements + "\n  z = ConstantOfShape(r)\n}\n");
}

TEST(PartialInts, NeutralElementsKeepSymbols) {
  EXPECT_EQ(shaped_by("int64[1] {0}", "r = Add(s, k)"), "float32[N, 3, 4]");
  EXPECT_EQ(shaped_by("int64[3] {0, 1, 2}", "r = Sub(s, k)"), "float32[N, 2, 2]");
  EXPECT_EQ(shaped_by("int64[3] {1, 2, 3}", "r = Mul(k, s)"), "float32[N, 6, 12]");
  EXPECT_EQ(shaped_by("int64[3] {1, 2, 4}", "r = Div(s, k)"), "float32[N, 1, 1]");
}

TEST(PartialInts, WhatDependsOnASymbolIsUnknown) {
  EXPECT_EQ(shaped_by("int64[] {1}", "r = Add(s, k)"), "float32[?, 4, 5]");
  EXPECT_EQ(shaped_by("int64[] {1}", "r = Mul(s, s)"), "float32[?, 9, 16]");
  EXPECT_EQ(shaped_by("int64[3] {0, 1, 1}", "r = Mul(s, k)"), "float32[0, 3, 4]");
  EXPECT_EQ(shaped_by("int64[] {1}", "r = Sub(s, s)"), "float32[0, 0, 0]");
}

TEST(PartialInts, SurviveCasts) {
  EXPECT_EQ(shaped_by("int64[] {1}", "a = Cast(s) {to = 6}\n  r = Cast(a) {to = 7}"), "float32[N, 3, 4]");
}

TEST(PartialInts, ExtremesOfSizes) {
  EXPECT_EQ(shaped_by("int64[1] {0}", "r = Max(s, k)"), "float32[N, 3, 4]");
  EXPECT_EQ(shaped_by("int64[1] {4}", "r = Max(s, k)"), "float32[?, 4, 4]");
  EXPECT_EQ(shaped_by("int64[3] {0, 9, 2}", "r = Min(s, k)"), "float32[0, 3, 2]");
}

// How exporters write "keep the size where the wanted one is -1": a size never equals -1, so the choice is known.
TEST(PartialInts, ChoiceByComparisonWithMinusOne) {
  EXPECT_EQ(shaped_by("int64[1] {-1}", "c = Equal(s, k)\n  r = Where(c, k, s)"), "float32[N, 3, 4]");
  EXPECT_EQ(shaped_by("int64[1] {3}", "c = Equal(s, k)\n  a = Add(k, k)\n  r = Where(c, a, s)"), "float32[?, 6, 4]");
}

}  // namespace
}  // namespace finity
