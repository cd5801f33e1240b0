#include "exec/reference.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/text/text.h"

namespace finity {
namespace {

constexpr const char* kWithUnknownOp = R"(
opset 17
graph g (x: float32[2] = {1, 2}) -> (good: float32[2], bad) {
  good = Neg(x) @ "negate"
  odd = com.example.Mystery(x) @ "mystery"
  bad = Neg(odd) @ "after"
})";

TEST(Reference, StopsAtAnUnknownOpByNameUnlessToldToGoOn) {
  const Graph graph = parse_graph(kWithUnknownOp, "test");
  try {
    run_reference(graph, {});
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "node 'mystery' (com.example.Mystery): op is not modelled");
  }
  std::vector<Note> lost;
  const std::vector<Datum> outputs = run_reference(graph, {}, {.seed = 0, .trace = {}, .unsupported = &lost});
  ASSERT_NE(outputs[0].tensor(), nullptr);
  EXPECT_EQ(print_tensor(*outputs[0].tensor()), "float32[2] {-1, -2}");
  EXPECT_FALSE(outputs[1].present());
  ASSERT_EQ(lost.size(), 1u) << "only the op itself is noted, not what depends on it";
}

TEST(Reference, NamesMissingAndUnknownInputs) {
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[1]) -> (y) { y = Neg(x) }", "test");
  EXPECT_THROW(run_reference(graph, {}), Error);
  EXPECT_THROW(run_reference(graph, {{"z", Tensor::scalar(1.0f)}}), Error);
}

TEST(Reference, ReportsTheNodeThatFailed) {
  const Graph graph =
      parse_graph("opset 17\ngraph g (x: float32[2], y: float32[3]) -> (z) { z = Add(x, y) @ \"sum\" }", "test");
  try {
    run_reference(graph, {{"x", Tensor(DType::float32, {2})}, {"y", Tensor(DType::float32, {3})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("node 'sum' (Add): ")) << error.what();
  }
}

TEST(Reference, RunsALoopBodyWithCapturedValues) {
  const Graph graph = parse_graph(R"(
opset 17
graph g (x: float32[] = {1}) -> (last: float32[], all) {
  const trips: int64[] = {3}
  const go: bool[] = {true}
  last, all = Loop(trips, go, x) {body = graph b (i: int64[], c: bool[], a: float32[]) -> (c2, s, t) {
    c2 = Identity(c)
    s = Add(a, x)
    t = Identity(s)
  }}
})",
                                  "test");
  const std::vector<Datum> outputs = run_reference(graph, {});
  EXPECT_EQ(print_tensor(*outputs[0].tensor()), "float32[] {4}");
  EXPECT_EQ(print_tensor(*outputs[1].tensor()), "float32[3] {2, 3, 4}");
}

}  // namespace
}  // namespace finity
