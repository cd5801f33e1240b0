// Searches: what can fail is shown to fail, on an input inside the contract that the reference runs again.
#include "trigger/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <ranges>
#include <sstream>

#include "exec/reference.h"
#include "formats/model_format.h"
#include "formats/text/text.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

CheckedGraph checked(std::string_view text, const std::vector<std::string>& ranges) {
  Contract contract;
  for (const std::string& range : ranges) add_range(contract, range);
  return check_graph(parse_graph("opset 17\n" + std::string(text), "test"), contract);
}

// The site of this rule, which must have been found.
const SiteSearch& site_of(const CheckedGraph& model, const SearchResult& result, std::string_view rule) {
  const auto is = [&](const SiteSearch& site) { return model.analysis.findings[site.finding].rule == rule; };
  const auto found = std::ranges::find_if(result.sites, is);
  if (found == result.sites.end()) throw Error("no open site of rule " + std::string(rule));
  return *found;
}

const FailingRun& witness_of(const CheckedGraph& model, const SearchResult& result, std::string_view rule) {
  const auto is = [&](const FailingRun& run) { return model.analysis.findings[run.finding].rule == rule; };
  const auto found = std::ranges::find_if(result.witnesses, is);
  if (found == result.witnesses.end()) throw Error("no witness of rule " + std::string(rule));
  return *found;
}

std::vector<double> input(const FailingRun& run, const std::string& name) {
  return elements<double>(*run.drawn->inputs.at(name).tensor());
}

const SearchOptions kQuick = {.seconds = 5};

// Random numbers do not meet a difference of 1234.5 exactly: the linear step does.
TEST(Search, WalksToASinglePoint) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[3]) -> (y: float32[3]) {
  const c: float32[] = {1234.5}
  d = Sub(x, c)
  y = Div(c, d)
})",
                                     {"x:[0,5000]"});
  const SearchResult result = search_failures(model, kQuick);
  ASSERT_TRUE(site_of(model, result, "FN101").confirmed) << site_of(model, result, "FN101").closest;
  const std::vector<double> x = input(witness_of(model, result, "FN101"), "x");
  EXPECT_TRUE(std::ranges::find(x, 1234.5) != x.end());
}

// In float32 1 - sigmoid(x) is 0 from 16.6 on; the slope there is tiny, but it has a sign.
TEST(Search, FollowsSaturatedFunctions) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[2, 4], w: float32[4, 1]) -> (y: float32[2, 1]) {
  const one: float32[] = {1}
  logit = MatMul(x, w)
  p = Sigmoid(logit)
  q = Sub(one, p)
  y = Log(q)
})",
                                     {"x:[-1,1]", "w:[-6,6]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed) << site_of(model, result, "FN102").closest;
}

// Distances and slopes of what is inside a branch come out of it as a result of its If.
TEST(Search, WalksIntoBranches) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[16], flag: bool[]) -> (z) {
  const w: float32[16, 1] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}
  const b: float32[1] = {7.5}
  h = MatMul(x, w)
  logit = Add(h, b)
  z = If(flag) {
    then_branch = graph yes () -> (y) {
      y = Log(logit)
    },
    else_branch = graph no () -> (t) {
      t = Tanh(logit)
    }
  }
})",
                                     {"x:[0,1]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed) << site_of(model, result, "FN102").closest;
}

TEST(Search, WalksIntoLoops) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[16], n: int64[]) -> (z) {
  const on: bool[] = {true}
  const w: float32[16] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1}
  const b: float32[] = {30}
  const start: float32[] = {0}
  s, z = Loop(n, on, start) {body = graph b (i: int64[], c: bool[], sum: float32[]) -> (c2, next, y) {
    c2 = Identity(c)
    wx = Mul(w, x)
    step = ReduceSum(wx) {keepdims = 0}
    next = Add(sum, step)
    left = Sub(b, next)
    y = Log(left)
  }}
})",
                                     {"x:[0,1]", "n:[1,4]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed) << site_of(model, result, "FN102").closest;
}

// Every token is padding: there is no slope, but each change that helps is seen.
TEST(Search, ChangesIntegersOneByOne) {
  const CheckedGraph model = checked(R"(
graph g (ids: int64[1, 12]) -> (mean: float32[1, 1]) {
  const pad: int64[] = {7}
  const axis: int64[1] = {1}
  value = Cast(ids) {to = 1}
  is_pad = Equal(ids, pad)
  is_token = Not(is_pad)
  keep = Cast(is_token) {to = 1}
  kept = Mul(value, keep)
  sum = ReduceSum(kept, axis)
  count = ReduceSum(keep, axis)
  mean = Div(sum, count)
})",
                                     {"ids:[0,30]"});
  const SearchResult result = search_failures(model, kQuick);
  ASSERT_TRUE(site_of(model, result, "FN101").confirmed) << site_of(model, result, "FN101").closest;
  EXPECT_EQ(input(witness_of(model, result, "FN101"), "ids"), std::vector<double>(12, 7));
}

// In double a walk comes as near to zero as it likes; that the sum in float32 is zero is a matter of luck and trying.
TEST(Search, MeetsTheZeroOfASum) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[6]) -> (y: float32[6]) {
  const w: float32[6] = {0.31, -0.77, 0.13, 0.59, -0.23, 0.41}
  a = Mul(x, w)
  b = Tanh(a)
  const v: float32[6] = {0.7, 0.9, 0.3, 0.5, 0.8, 0.2}
  c = Mul(b, v)
  total = ReduceSum(c) {keepdims = 1}
  y = Div(x, total)
})",
                                     {"x:[1,5]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN101").confirmed) << site_of(model, result, "FN101").closest;
}

// A few samples are less than one window: sizes are drawn that the model takes.
TEST(Search, DrawsSizesThatTheModelTakes) {
  const CheckedGraph model = checked(R"(
graph g (audio: float32[batch, samples]) -> (y) {
  const window: float32[1, 1, 200] = {)" +
                                         [] {
                                           std::string ones = "1";
                                           for (int i = 1; i < 200; ++i) ones += ", 1";
                                           return ones;
                                         }() +
                                         R"(}
  const axis: int64[1] = {1}
  one = Unsqueeze(audio, axis)
  frames = Conv(one, window) {strides = [100]}
  y = Log(frames)
})",
                                     {"audio:[-1,1]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed) << result.failed;
  EXPECT_GE(input(witness_of(model, result, "FN102"), "audio").size(), 200U);
}

// A label that is no class ends a run behind the failure: a run to the end is worth more.
TEST(Search, PrefersRunsThatComeToTheirEnd) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[4, 32], labels: int64[4]) -> (loss) {
  size = ReduceL2(x) {axes = [1]}
  mean = ReduceMean(x) {axes = [1]}
  scores = Div(mean, size)
  wide = Add(x, scores)
  loss = SoftmaxCrossEntropyLoss(wide, labels)
})",
                                     {"x:[-5,5]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_FALSE(witness_of(model, result, "FN101").outputs.empty());
}

// At the edge the rounding of another library would decide; a little farther it does not.
TEST(Search, GoesAStepBeyondTheEdge) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[8]) -> (y: float32[]) {
  const w: float32[8] = {0.31, 0.77, 0.13, 0.59, 0.23, 0.41, 0.19, 0.67}
  const b: float32[] = {2.7}
  p = Mul(x, w)
  s = ReduceSum(p) {keepdims = 0}
  d = Sub(b, s)
  y = Log(d)
})",
                                     {"x:[0,1]"});
  const SearchResult result = search_failures(model, kQuick);
  const std::vector<double> x = input(witness_of(model, result, "FN102"), "x");
  const double weights[] = {0.31, 0.77, 0.13, 0.59, 0.23, 0.41, 0.19, 0.67};
  double left = 2.7;
  for (std::size_t i = 0; i < x.size(); ++i) left -= x[i] * weights[i];
  EXPECT_LT(left, -0.005);
}

TEST(Search, MakesResultsOverflow) {
  const CheckedGraph model = checked(R"(
graph g (x: float16[4], w: float16[4]) -> (y: float16[4]) {
  a = Mul(x, w)
  y = Mul(a, w)
})",
                                     {"x:[-20,20]", "w:[-80,80]"});
  const SearchResult result = search_failures(model, kQuick);
  ASSERT_TRUE(site_of(model, result, "FN203").confirmed) << site_of(model, result, "FN203").closest;
  for (const double x : input(witness_of(model, result, "FN203"), "x")) EXPECT_LE(std::abs(x), 20);
}

// The root of x^2 + 1 under a rule that does not see the order: nothing fails, and the search says how near it came.
TEST(Search, SaysHowNearItCame) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[2]) -> (y: float32[2]) {
  const three: float32[] = {3}
  const shift: float32[] = {2.5}
  square = Mul(x, x)
  line = Mul(three, x)
  part = Sub(square, line)
  positive = Add(part, shift)
  y = Log(positive)
})",
                                     {"x:[-10,10]"});
  SearchOptions options = kQuick;
  options.seconds = 1;
  const SearchResult result = search_failures(model, options);
  const SiteSearch& site = site_of(model, result, "FN102");
  EXPECT_FALSE(site.confirmed);
  // The least value of x^2 - 3x + 2.5 is 0.25.
  EXPECT_TRUE(site.closest.starts_with("0.25 away from <= 0")) << site.closest;
  EXPECT_GT(result.runs, 10U);
}

TEST(Search, ShrinksWhatDoesNotMatter) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[64], t: float32[]) -> (y: float32[64]) {
  y = Div(x, t)
})",
                                     {"x:[-5,5]", "t:[-1,1]"});
  const SearchResult result = search_failures(model, kQuick);
  const FailingRun& witness = witness_of(model, result, "FN101");
  EXPECT_EQ(input(witness, "t"), std::vector<double>{0});
  EXPECT_EQ(input(witness, "x"), std::vector<double>(64, 0));
}

// Zeros are not looked at one by one with a copy of all the others each time.
TEST(Search, ShrinksLargeInputsInTime) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[3, 256, 256]) -> (y: float32[]) {
  m = ReduceMin(x) {keepdims = 0}
  y = Log(m)
})",
                                     {"x:[-5,5]"});
  const auto start = std::chrono::steady_clock::now();
  const SearchResult result = search_failures(model, {.seconds = 20});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(input(witness_of(model, result, "FN102"), "x"), std::vector<double>(3 * 256 * 256, 0));
  EXPECT_LT(took.count(), 25);
}

// Weights as inputs of a large model: more than is drawn, whatever the machine could hold.
TEST(Search, SaysWhenInputsAreTooManyToDraw) {
  const CheckedGraph model = checked(R"(
graph g (a: float32[8192, 8192], b: float32[8192, 8192], c: float32[8192, 8192], d: float32[8192, 8192],
         e: float32[8192, 8192]) -> (y: float32[8192, 8192]) {
  s = Sum(a, b, c, d, e)
  y = Log(s)
})",
                                     {"*:[-5,5]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_NE(result.failed.find("too many elements"), std::string::npos) << result.failed;
  EXPECT_FALSE(site_of(model, result, "FN102").confirmed);
}

// 0 / 0 is a division by zero, and no sign of a quotient that is too large.
TEST(Search, TellsOverflowFromWhatTheOpDoesNotTake) {
  constexpr std::string_view kModel = R"(
graph g (x: float32[4], t: float32[4]) -> (y: float32[4]) {
  y = Div(x, t)
})";
  const auto met = [](const SearchResult& result, const CheckedGraph& model, std::string_view rule) {
    return std::ranges::any_of(
        result.witnesses, [&](const FailingRun& run) { return model.analysis.findings[run.finding].rule == rule; });
  };
  const CheckedGraph both = checked(kModel, {"x:[-1,1]", "t:[-1,1]"});
  const SearchResult found = search_failures(both, kQuick);
  EXPECT_TRUE(met(found, both, "FN101"));
  for (const FailingRun& run : found.witnesses) {
    if (both.analysis.findings[run.finding].rule != "FN208") continue;
    const std::vector<double> x = input(run, "x"), t = input(run, "t");
    EXPECT_TRUE(std::ranges::any_of(std::views::iota(0U, x.size()), [&](std::size_t i) {
      return t[i] != 0 && std::abs(x[i] / t[i]) > 3.5e38;
    })) << run.what;
  }
  const CheckedGraph tiny = checked(kModel, {"x:[0.5,1]", "t:[1e-40,1]"});
  EXPECT_TRUE(met(search_failures(tiny, kQuick), tiny, "FN208"));
}

// Every witness fails when the model is run on it from scratch.
TEST(Search, WitnessesFailAgain) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[2, 3]) -> (y: float32[2, 3]) {
  e = Exp(x)
  l = Log(x)
  y = Add(e, l)
})",
                                     {"x:[-100,100]"});
  const SearchResult result = search_failures(model, kQuick);
  ASSERT_FALSE(result.witnesses.empty());
  for (const FailingRun& run : result.witnesses) {
    const std::vector<Datum> outputs = run_reference(model.graph, run.drawn->inputs);
    const std::vector<double> y = elements<double>(*outputs[0].tensor());
    EXPECT_TRUE(std::ranges::any_of(y, [](double v) { return !std::isfinite(v); })) << run.what;
  }
}

// What Dropout gives is not a draw that a search may choose.
TEST(Search, LeavesDropoutAlone) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[4]) -> (loss: float32[], q: float32[4]) {
  q = Log(x)
  l = Dropout(x)
  loss = ReduceSum(l) {keepdims = 0}
})",
                                     {"x:[0,1]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed);
}

TEST(Search, SeesFailuresInsideLoops) {
  const CheckedGraph model = checked(R"(
graph g (x: float32[2]) -> (y: float32[2]) {
  const trips: int64[] = {1}
  const go: bool[] = {true}
  y = Loop(trips, go, x) {
    body = graph (i: int64[], c: bool[], v: float32[2]) -> (c2, w) {
      c2 = Identity(c)
      w = Log(v)
    }
  }
})",
                                     {"x:[-2,-1]"});
  const SearchResult result = search_failures(model, kQuick);
  EXPECT_TRUE(site_of(model, result, "FN102").confirmed);
}

// ---- examples/patterns ---------------------------------------------------------

struct Pattern {
  std::string file = {};
  std::string options = {};
  std::vector<std::pair<std::string, std::string>> sites = {};  // node and rule, of those known to fail
};

std::vector<Pattern> buggy_patterns() {
  std::map<std::string, Pattern> patterns;
  std::istringstream in(read_text_file(examples_folder() + "/patterns/expected.tsv"));
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '\t');) cells.push_back(cell);
    // Only those whose failure the table shows by an input.
    const bool fails = cells.size() == 6 && cells[4] == "possible" && cells[3].substr(0, 3) != "FN4";
    if (!fails) continue;
    Pattern& pattern = patterns[cells[0]];
    pattern.file = cells[0];
    pattern.options = cells[1];
    pattern.sites.emplace_back(cells[2], cells[3]);
  }
  std::vector<Pattern> result;
  for (auto& [file, pattern] : patterns) result.push_back(std::move(pattern));
  return result;
}

void PrintTo(const Pattern& pattern, std::ostream* out) { *out << pattern.file; }

class BuggyPatterns : public testing::TestWithParam<Pattern> {};

TEST_P(BuggyPatterns, AreShownToFail) {
  const Pattern& pattern = GetParam();
  Contract contract;
  std::istringstream in(pattern.options);
  for (std::string option, value; in >> option >> value;) add_range(contract, value);
  std::vector<Note> notes;
  const CheckedGraph model = check_graph(read_model(examples_folder() + "/patterns/" + pattern.file, notes), contract);
  const SearchResult result = search_failures(model, {.seconds = 20});
  for (const auto& [node, rule] : pattern.sites) {
    const auto is_here = [&](const Finding& finding) {
      const auto computes = [&](ValueId id) { return id.valid() && model.graph.value(id).name == node; };
      return finding.rule == rule && finding.node.valid() &&
             std::ranges::any_of(model.graph.node(finding.node).outputs, computes);
    };
    const auto site = std::ranges::find_if(model.analysis.findings, is_here);
    ASSERT_NE(site, model.analysis.findings.end()) << node << " " << rule;
    // What comes after a failure that was shown needs no input of its own.
    const auto on_the_way = [&](const FailingRun& run) {
      const ValueId failed = model.analysis.findings[run.finding].value;
      return std::ranges::find(site->path, failed) != site->path.end() && failed != site->value;
    };
    if (site->root >= 0 || std::ranges::any_of(result.witnesses, on_the_way)) continue;
    const auto index = static_cast<std::size_t>(site - model.analysis.findings.begin());
    EXPECT_NE(std::ranges::find(result.witnesses, index, &FailingRun::finding), result.witnesses.end())
        << pattern.file << ": " << node << " " << rule;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, BuggyPatterns, testing::ValuesIn(buggy_patterns()),
                         [](const auto& info) { return info.param.file.substr(0, info.param.file.find('.')); });

}  // namespace
}  // namespace finity
