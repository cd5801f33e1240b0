#include <gtest/gtest.h>

#include <chrono>

#include "check/check_support.h"
#include "check/verify.h"

namespace finity {
namespace {

// Long enough for the clock to be looked at.
std::string long_chain(int nodes) {
  std::string text = "opset 17\ngraph g (x: float32[4]) -> (y) {\n  a0 = Exp(x)\n";
  for (int i = 1; i <= nodes; ++i) text += "  a" + std::to_string(i) + " = Neg(a" + std::to_string(i - 1) + ")\n";
  return text + "  y = Log(a" + std::to_string(nodes) + ")\n}\n";
}

Analysis limited(const Checked& model, const CheckOptions& options) {
  return analyze(model.graph, model.types, model.premises, options);
}

TEST(Limits, OneUnknownFindingSpeaksOfAllThatIsLeft) {
  const Checked model = premises_of(parse_graph(long_chain(300), "test"));
  for (const CheckOptions& options : {CheckOptions{.ranges = {}, .time_limit = 1e-9, .memory_limit = 0},
                                      CheckOptions{.ranges = {}, .time_limit = 0, .memory_limit = 2000}}) {
    const Analysis stopped = limited(model, options);
    EXPECT_FALSE(stopped.complete);
    const auto is_stop = [](const Finding& finding) { return finding.rule == "FN903"; };
    EXPECT_EQ(std::ranges::count_if(stopped.findings, is_stop), 1);
    const auto stop = std::ranges::find_if(stopped.findings, is_stop) - stopped.findings.begin();
    EXPECT_LT(stopped.modelled_nodes, model.graph.nodes().size());
    // The logarithm at the end was not reached: it is counted, as not known for that reason.
    const Finding& logarithm = stopped.findings.back();
    EXPECT_EQ(logarithm.rule, "FN102");
    EXPECT_EQ(logarithm.verdict, Verdict::unknown);
    EXPECT_EQ(logarithm.root, stop);
    EXPECT_EQ(stopped.ranges[model.value("y").at()].hull(), top(DType::float32));
  }
}

// A loop of `outer` iterations, each of which runs one of `inner` iterations.
std::string loop_in_loop(int outer, int inner) {
  return "opset 17\ngraph g (x: float32[4]) -> (y) {\n  const outer: int64[] = {" + std::to_string(outer) +
         "}\n  const inner: int64[] = {" + std::to_string(inner) + R"(}
  y = Loop(outer, _, x) { body = graph (i: int64[], c: bool[], v: float32[4]) -> (d, w) {
      d = Identity(c)
      w = Loop(inner, _, v) { body = graph (j: int64[], e: bool[], p: float32[4]) -> (f, u) {
          f = Identity(e)
          q = Mul(p, p)
          r = Sqrt(q)
          s = Neg(r)
          t = Exp(s)
          u = Log(t)
        }
      }
    }
  }
})";
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Limits, HoldForSmallGraphs) {
  const Checked model = premises_of(parse_graph(long_chain(2), "test"));
  const Analysis stopped = limited(model, {.ranges = {}, .time_limit = 1e-9, .memory_limit = 0});
  EXPECT_FALSE(stopped.complete);
  EXPECT_EQ(stopped.modelled_nodes, 0U);
}

TEST(Limits, LoopsWithinLoopsShareOneBudget) {
  const Checked model = premises_of(parse_graph(loop_in_loop(5000, 5000), "test"));
  Analysis analysis;
  EXPECT_LT(seconds_of([&] { analysis = limited(model, {}); }), 20);
  EXPECT_TRUE(analysis.complete);
}

TEST(Limits, FewIterationsOfALoopInALoopAreStillExact) {
  const Checked model = premises_of(parse_graph(R"(opset 17
    graph g (x: float32[4]) -> (y) {
      const three: int64[] = {3}
      const one: float32[] = {1}
      y = Loop(three, _, x) { body = graph (i: int64[], c: bool[], v: float32[4]) -> (d, w) {
          d = Identity(c)
          w = Loop(three, _, v) { body = graph (j: int64[], e: bool[], p: float32[4]) -> (f, u) {
              f = Identity(e)
              u = Add(p, one)
            }
          }
        }
      }
    })",
                                                "test"),
                                    ranges({"x:[0,1]"}));
  const Analysis analysis = limited(model, {});
  EXPECT_EQ(analysis.ranges[model.value("y").at()].hull().lo, 9);
  EXPECT_EQ(analysis.ranges[model.value("y").at()].hull().hi, 10);
}

// What holds for the iterations that were looked at says nothing about the others.
TEST(Limits, NothingIsProvedOfALoopThatWasLeft) {
  const Checked model = premises_of(parse_graph(loop_in_loop(50, 60), "test"), ranges({"x:[0,1]"}));
  int stopped_inside = 0;
  for (const std::size_t limit : {2000U, 10000U, 30000U, 100000U}) {
    const Analysis analysis = limited(model, {.ranges = {}, .time_limit = 0, .memory_limit = limit});
    if (analysis.complete || analysis.findings.size() < 3) continue;
    ++stopped_inside;
    for (const Finding& finding : analysis.findings) EXPECT_EQ(finding.verdict, Verdict::unknown) << finding.rule;
    EXPECT_EQ(analysis.ranges[model.value("t").at()].hull(), top(DType::float32));
    EXPECT_EQ(analysis.ranges[model.value("y").at()].hull(), top(DType::float32));
  }
  EXPECT_GT(stopped_inside, 0);
}

TEST(Limits, VerifyStopsWithinARun) {
  const Checked model = checked(parse_graph(loop_in_loop(5000, 5000), "test"), ranges({"x:[0,1]"}));
  VerifyReport report;
  const double seconds = seconds_of([&] {
    report =
        verify(model.graph, model.types, model.premises, model.analysis, {.runs = 3, .seed = 1, .time_limit = 0.2});
  });
  EXPECT_LT(seconds, 10);
  EXPECT_TRUE(report.time_up);
  EXPECT_EQ(report.runs, 0);
}

TEST(Limits, GenerousOnesChangeNothing) {
  const Checked model = premises_of(parse_graph(long_chain(300), "test"));
  const Analysis all = limited(model, {});
  const Analysis same = limited(model, {.ranges = {}, .time_limit = 1000, .memory_limit = std::size_t{1} << 32U});
  EXPECT_TRUE(same.complete);
  ASSERT_EQ(all.findings.size(), same.findings.size());
  EXPECT_EQ(all.findings.back().rule, "FN102");
}

}  // namespace
}  // namespace finity
