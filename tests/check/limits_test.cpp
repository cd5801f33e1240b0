#include <gtest/gtest.h>

#include "check/check_support.h"

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
