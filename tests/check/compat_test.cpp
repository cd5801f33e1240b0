// Each of DEBAR's unsound assumptions, by name: without it the defect is reported, with it it is not, and the report
// says what was taken for granted.
#include "check/compat.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "check/check_graph.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/text/text.h"

namespace finity {
namespace {

std::size_t open_findings(const Graph& graph, std::string_view compat, const std::vector<std::string>& ranges) {
  Contract contract;
  for (const std::string& range : ranges) add_range(contract, range);
  GraphCheckOptions options;
  options.compat = compat_from_text(compat);
  const CheckedGraph checked = check_graph(graph, contract, options);
  for (const Compat which : options.compat) {
    const auto entry = std::ranges::find(compat_entries(), which, &CompatEntry::which);
    const bool said = std::ranges::any_of(checked.premises.assumptions, [&](const std::string& text) {
      return text.starts_with("not sound") && text.find(entry->name) != std::string::npos;
    });
    EXPECT_TRUE(said) << entry->name;
  }
  return static_cast<std::size_t>(std::ranges::count_if(
      checked.analysis.findings, [](const Finding& finding) { return finding.verdict != Verdict::proved; }));
}

void expect_only_compat_is_silent(const std::string& text, std::string_view compat,
                                  const std::vector<std::string>& ranges) {
  const Graph graph = parse_graph("opset 17\n" + text, "t");
  EXPECT_GT(open_findings(graph, "", ranges), 0U) << compat;
  EXPECT_EQ(open_findings(graph, compat, ranges), 0U) << compat;
  EXPECT_EQ(open_findings(graph, "debar", ranges), 0U) << compat;
}

TEST(Compat, DrawsAreTakenToBePositive) {
  expect_only_compat_is_silent("graph g (x: float32[4]) -> (y) {\n  u = RandomUniformLike(x)\n  y = Log(u)\n}\n",
                               "positive-draws", {"x:[0,1]"});
}

TEST(Compat, OneSafeElementOfAConstantIsEnough) {
  expect_only_compat_is_silent("graph g (x: float32[2]) -> (y) {\n  const c: float32[2] = {0, 1}\n  y = Div(x, c)\n}\n",
                               "any-safe-element,eight-operations", {"x:[0,1]"});
}

TEST(Compat, NothingIsRounded) {
  expect_only_compat_is_silent(
      "graph g (x: float32[2]) -> (y) {\n  const one: float32[] = {1}\n  s = Sigmoid(x)\n  d = Sub(one, s)\n"
      "  y = Log(d)\n}\n",
      "real-arithmetic", {"x:[-30,30]"});
}

TEST(Compat, GradientsAreNotLookedAt) {
  expect_only_compat_is_silent("graph g (x: float32[2]) -> (y) {\n  y = Log(x) @ \"gradients/Log\"\n}\n",
                               "no-gradients", {"x:[0,1]"});
}

TEST(Compat, OnlyTheLargestPartIsLookedAt) {
  expect_only_compat_is_silent(
      "graph g (x: float32[2], z: float32[2]) -> (y, c) {\n  a = Relu(x)\n  b = Abs(a)\n  c = Sqrt(b)\n  y = "
      "Log(z)\n}\n",
      "largest-part", {"x:[0,1]", "z:[0,1]"});
}

TEST(Compat, OverflowOfProductsIsNotLookedAt) {
  expect_only_compat_is_silent("graph g (x: float32[2]) -> (y) {\n  y = Mul(x, x)\n}\n", "eight-operations",
                               {"x:[0,1e30]"});
}

TEST(Compat, VariablesAreSmall) {
  std::vector<Note> notes;
  const Graph graph = read_tensorflow(
      "node { name: \"v\" op: \"VariableV2\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"shape\" "
      "value "
      "{ shape { dim { size: 2 } } } } }\n"
      "node { name: \"r\" op: \"Identity\" input: \"v\" attr { key: \"T\" value { type: DT_FLOAT } } }\n"
      "node { name: \"e\" op: \"Exp\" input: \"r\" attr { key: \"T\" value { type: DT_FLOAT } } }\n"
      "versions { producer: 27 }\n",
      "g.pbtxt", notes);
  EXPECT_GT(open_findings(graph, "", {}), 0U);
  EXPECT_EQ(open_findings(graph, "small-weights", {}), 0U);
}

TEST(Compat, ARealDefectStaysOneWithAllOfThem) {
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[2]) -> (y) {\n  y = Log(x)\n}\n", "t");
  EXPECT_EQ(open_findings(graph, "debar", {"x:[0,1]"}), 1U);
}

TEST(Compat, NamesAreChecked) {
  EXPECT_TRUE(compat_from_text("").empty());
  EXPECT_EQ(compat_from_text("debar").size(), compat_entries().size());
  EXPECT_EQ(compat_from_text("no-gradients,pole-of-log1p"), (CompatSet{Compat::no_gradients, Compat::pole_of_log1p}));
  EXPECT_THROW(compat_from_text("debra"), Error);
}

}  // namespace
}  // namespace finity
