#include "exec/first_failure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/reference.h"
#include "formats/text/text.h"

namespace finity {
namespace {

Tensor floats(std::vector<float> numbers) {
  Tensor tensor(DType::float32, {static_cast<std::int64_t>(numbers.size())});
  std::ranges::copy(numbers, tensor.mutable_data<float>().begin());
  return tensor;
}

struct Watched {
  Graph graph;
  FailureFinder finder;

  Watched(const std::string& body, const Inputs& inputs) : graph(parse_graph("opset 17\n" + body, "g")), finder(graph) {
    RunOptions options;
    options.watch = [&](const Node& node, std::span<const Datum> operands, std::span<const Datum> results) {
      finder.saw(node, operands, results);
    };
    run_reference(graph, inputs, options);
  }

  const FirstFailure* first() const { return finder.behind(graph.main().outputs.front()); }
};

TEST(FirstFailure, NamesNodeElementAndOperands) {
  const Watched run("graph g (x: float32[3], d: float32[1]) -> (y) { q = Div(x, d)\n e = Exp(q)\n y = Add(e, e) }",
                    {{"x", floats({1, 200, 3})}, {"d", floats({2})}});
  ASSERT_NE(run.first(), nullptr);
  EXPECT_EQ(run.first()->node->op_type, "Exp");
  EXPECT_EQ(run.first()->index, Dims{1});
  EXPECT_EQ(run.first()->operands.front().element, 100.0);
}

TEST(FirstFailure, TheOverflowIsBlamedForTheNanItBecomes) {
  const Watched run("graph g (x: float32[2]) -> (y) { e = Exp(x)\n d = Sub(e, e)\n y = Neg(d) }",
                    {{"x", floats({1, 200})}});
  ASSERT_NE(run.first(), nullptr);
  EXPECT_EQ(run.first()->node->op_type, "Exp");
}

// An infinity that vanishes again is not the cause.
TEST(FirstFailure, OnlyWhatReachesTheOutputCounts) {
  const Watched run(R"(graph g (x: float32[2]) -> (y) {
    const one: float32[] = {1}
    e = Exp(x)
    small = Div(one, e)
    l = Log(small)
    y = Neg(l) })",
                    {{"x", floats({1, 200})}});
  ASSERT_NE(run.first(), nullptr);
  EXPECT_EQ(run.first()->node->op_type, "Log");
  EXPECT_EQ(run.first()->operands.front().element, 0.0);
}

// A mask of -Inf is intended; the softmax of nothing else is what fails.
TEST(FirstFailure, ConstantsThatAreInfiniteAreNotFailures) {
  const std::string text = R"(graph g (x: float32[2], keep: bool[2]) -> (y) {
    const none: float32[] = {-inf}
    m = Where(keep, x, none)
    y = Softmax(m) })";
  Tensor keep(DType::boolean, {2});
  const Watched run(text, {{"x", floats({1, 2})}, {"keep", keep}});
  ASSERT_NE(run.first(), nullptr);
  EXPECT_EQ(run.first()->node->op_type, "Softmax");
  const Watched given("graph g (x: float32[2]) -> (y) { y = Neg(x) }", {{"x", floats({1, INFINITY})}});
  EXPECT_EQ(given.first(), nullptr);
  EXPECT_EQ(given.finder.given_behind(given.graph.main().outputs.front()), given.graph.main().inputs.front());
}

TEST(FirstFailure, IsFoundInsideLoops) {
  const Watched run(R"(graph g (x: float32[1], n: int64[]) -> (y) {
    const go: bool[] = {true}
    y = Loop(n, go, x) { body = graph b (i: int64[], c: bool[], s: float32[1]) -> (go_on, t) {
      go_on = Identity(c)
      t = Mul(s, s) } } })",
                    {{"x", floats({1e10F})}, {"n", Tensor::scalar(std::int64_t{4})}});
  ASSERT_NE(run.first(), nullptr);
  EXPECT_EQ(run.first()->node->op_type, "Mul");
  EXPECT_EQ(run.first()->operands.front().element, static_cast<double>(1e10F * 1e10F));
}

}  // namespace
}  // namespace finity
