#include "report/collect.h"

#include <gtest/gtest.h>

#include <set>

#include "check/analyze.h"
#include "formats/text/text.h"
#include "report/known.h"
#include "report/sample.h"
#include "report/words.h"

namespace finity {
namespace {

using sample::Builder;
using sample::everything;

std::vector<std::string> codes(const Report& report) {
  std::vector<std::string> result;
  for (const Alarm& alarm : report.alarms) result.emplace_back(alarm.rule->code);
  return result;
}

TEST(Selection, TheLongestMatchDecides) {
  const Rule& log = *find_rule("FN102");
  EXPECT_TRUE(is_selected({}, log));
  EXPECT_TRUE(is_selected({.select = {"FN1"}}, log));
  EXPECT_FALSE(is_selected({.select = {"FN2"}}, log));
  EXPECT_FALSE(is_selected({.ignore = {"FN1"}}, log));
  EXPECT_TRUE(is_selected({.select = {"FN102"}, .ignore = {"FN1"}}, log));
  EXPECT_TRUE(is_selected({.select = {"log-of-nonpositive"}, .ignore = {"FN1"}}, log));
  EXPECT_FALSE(is_selected({.select = {"FN1"}, .ignore = {"FN102"}}, log));
  EXPECT_FALSE(is_selected({.select = {"FN102"}, .ignore = {"FN102"}}, log));
  EXPECT_FALSE(is_selected({.ignore = {"all"}}, log));
  EXPECT_TRUE(is_selected({.select = {"FN"}, .ignore = {"all"}}, log));
  const Rule& unmodelled = *find_rule("FN901");
  EXPECT_TRUE(is_selected({.select = {"FN1"}, .ignore = {"all", "FN", "FN9"}}, unmodelled)) << "only by its own name";
  EXPECT_FALSE(is_selected({.ignore = {"FN901"}}, unmodelled));
  EXPECT_THROW(check_silencers({"FN9"}, "--ignore"), Error);
  EXPECT_NO_THROW(check_silencers({"FN1", "FN901", "all"}, "--ignore"));
  EXPECT_NO_THROW(check_prefixes({"FN", "FN1", "FN102", "log-of-nonpositive", "all"}, "--select"));
  EXPECT_THROW(check_prefixes({"FN8"}, "--select"), Error);
  EXPECT_THROW(check_prefixes({""}, "--select"), Error);
}

TEST(Collect, ProvedSitesAreOnlyCounted) {
  const Report report = everything().report();
  EXPECT_EQ(report.alarms.size(), 8U);
  EXPECT_EQ(
      summary_line(report),
      "NOT CHECKED: 1 of 11 nodes; 6 findings; 9 sites: 1 proved, 1 confirmed, 6 possible, 1 unknown (1 accepted)");
  EXPECT_EQ(codes(everything().report({.select = {"FN2"}})), (std::vector<std::string>{"FN201", "FN205"}));
}

TEST(Collect, RootsPointToAlarmsThatAreThere) {
  const Builder sample = everything();
  EXPECT_EQ(sample.report().alarms[1].root, 0);
  EXPECT_EQ(sample.report({.ignore = {"FN201"}}).alarms[0].root, -1);
  const Report report = sample.report();
  EXPECT_EQ(group(report).size(), 6U);
}

Report checked_text(const std::string& text) {
  const Graph graph = parse_graph(text, "g");
  const Types types = infer_types(graph);
  const Premises assumed = premises(graph, types, {}, 64);
  const Analysis analysis = analyze(graph, types, assumed);
  Report report;
  collect(report, {graph, types, analysis, assumed.assumptions}, {});
  return report;
}

TEST(Collect, MissingWeightsAreNoLimit) {
  const Report report = checked_text(R"(opset 17
    graph g (x: float32[2, 4]) -> (y) {
      const w: float32[4, 4] = {...}
      h = MatMul(x, w)
      y = own.Mystery(h) })");
  EXPECT_EQ(report.not_checked.why, (std::vector<std::string>{"missing weights", "Mystery"}));
  EXPECT_TRUE(report.complete);
}

TEST(Collect, BranchesThatAreNeverTakenAreNotCounted) {
  const std::string branches =
      R"({ then_branch = graph t () -> (a) { a = Relu(x) },
           else_branch = graph e () -> (b) { c = Neg(x)
                                             b = Log(c) } }
      })";
  const Report taken = checked_text(R"(opset 17
    graph g (x: float32[4]) -> (y) {
      const go: bool[] = {true}
      y = If(go) )" + branches);
  EXPECT_EQ(taken.counts.nodes, 2U);
  EXPECT_EQ(taken.counts.modelled, 2U);
  const Report open = checked_text("opset 17\n graph g (x: float32[4], go: bool[]) -> (y) {\n y = If(go) " + branches);
  EXPECT_EQ(open.counts.nodes, 4U);
  EXPECT_EQ(open.counts.modelled, 4U);
}

TEST(Collect, ADivisorThatMayBeZeroIsOneFinding) {
  const Report report = checked_text("opset 17\n graph g (x: float32[4]) -> (y) { y = Reciprocal(x) }");
  EXPECT_EQ(codes(report), (std::vector<std::string>{"FN114", "FN208"}));
  EXPECT_EQ(group(report).size(), 1U);
}

TEST(Collect, GroupsFollowChainsOverAcceptedAlarms) {
  Report report;
  report.alarms.resize(4, {.rule = find_rule("FN203")});
  for (int i = 1; i < 4; ++i) report.alarms[static_cast<std::size_t>(i)].root = i - 1;
  EXPECT_EQ(group(report).size(), 1U);
  EXPECT_EQ(group(report).front().others.size(), 3U);
  report.alarms[1].accepted = Acceptance::baseline;
  EXPECT_EQ(group(report).front().others.size(), 2U);
  report.alarms[0].accepted = Acceptance::baseline;
  EXPECT_EQ(group(report).size(), 1U);
  EXPECT_EQ(group(report).front().head, &report.alarms[2]);
}

TEST(Collect, ModelsIgnoreByMetadata) {
  const Report report = everything().report();
  ASSERT_EQ(report.alarms[3].rule->code, "FN104");
  EXPECT_EQ(report.alarms[3].accepted, Acceptance::model);
  EXPECT_EQ(report.alarms[2].accepted, Acceptance::none);
  EXPECT_EQ(report.counts.accepted, 1U);
}

TEST(Collect, PlacesNameScopesAndSources) {
  const Report report = everything().report();
  EXPECT_EQ(report.alarms[5].place.scope, "choose.then_branch/block (Attention)");
  EXPECT_EQ(source_text(report.alarms[0].place), "net/model.py:12");
  EXPECT_EQ(report.alarms[4].place.name(), "q");
  EXPECT_EQ(report.alarms[7].place.title, "constant 'w'");
}

TEST(Collect, PythonLines) {
  using Line = std::pair<std::string, int>;
  EXPECT_EQ(python_line(""), Line("", 0));
  EXPECT_EQ(python_line("File \"a.py\", line 3"), Line("a.py", 3));
  EXPECT_EQ(python_line("File \"a.py\", line 3, in f\nFile \"b.py\", line 4, in g"), Line("b.py", 4));
  EXPECT_EQ(python_line("File \"a.py\", line 3\nFile \"/x/site-packages/t.py\", line 4"), Line("a.py", 3));
  EXPECT_EQ(python_line("File \"/x/site-packages/s.py\", line 3\nFile \"/x/dist-packages/t.py\", line 4"),
            Line("/x/dist-packages/t.py", 4));
  EXPECT_EQ(python_line("File \"a.py\", line x"), Line("", 0));
  EXPECT_EQ(python_line("File \"a.py"), Line("", 0));
  EXPECT_EQ(python_line("File \"a.py\", line 99999999999999999999"), Line("", 0));
}

// Older exporters write the calls into the doc string, innermost first, the exporting script at the end.
TEST(Collect, PythonLinesOfDocStrings) {
  using Line = std::pair<std::string, int>;
  const std::string torch = "/usr/lib/python3.8/site-packages/torch/";
  const std::string exporter = torch + "jit/_trace.py(127): wrapper\n" + torch + "onnx/utils.py(379): export\n" +
                               "/home/me/export.py(77): <module>\n";
  EXPECT_EQ(python_line(torch + "nn/functional.py(1847): linear\n/home/me/net.py(23): forward\n" + torch +
                        "nn/modules/module.py(1102): _call_impl\n/home/me/net.py(90): forward\n" + exporter),
            Line("/home/me/net.py", 23));
  EXPECT_EQ(python_line("/x/site-packages/timm/layers.py(7): forward\n/home/me/net.py(8): forward\n" + exporter),
            Line("/home/me/net.py", 8));
  EXPECT_EQ(python_line("<ipython-input-3-ab>(5): forward\n" + exporter), Line("<ipython-input-3-ab>", 5));
  EXPECT_EQ(python_line("/home/a (b)/net.py(5): forward\n"), Line("/home/a (b)/net.py", 5));
  // Only modules of the framework: no line of the model's is known, least of all the one that exports it.
  EXPECT_EQ(python_line(torch + "nn/modules/linear.py(114): forward\n" + exporter), Line("", 0));
  EXPECT_EQ(python_line("computes sin(2): a description"), Line("", 0));
  EXPECT_EQ(python_line("What the model does (in words): nothing"), Line("", 0));
}

TEST(Collect, DocStringsOfNodesGiveTheSource) {
  const Report report = checked_text(R"(opset 17
    graph g (x: float32[4]) -> (y) {
      y = Log(x) @ "log" doc "/p/site-packages/torch/nn/functional.py(10): f\n/home/me/net.py(42): forward\n"
    })");
  ASSERT_FALSE(report.alarms.empty());
  EXPECT_EQ(source_text(report.alarms.front().place), "/home/me/net.py:42");
}

TEST(Collect, LongPathsLoseTheirMiddle) {
  Builder sample;
  Finding& finding = sample.find("l", "p", "FN102", 0, Verdict::possible);
  finding.path.assign(500, sample::value(sample.graph, "p"));
  const Report report = sample.report();
  const std::vector<Step>& path = report.alarms.front().path;
  EXPECT_EQ(path.size(), kMaxSteps);
  std::size_t skipped = 0;
  for (const Step& step : path) skipped += step.skipped;
  EXPECT_EQ(skipped, 500 - kMaxSteps + 1);
}

TEST(Fingerprint, SurvivesWhatIsInsertedBefore) {
  const std::string before = "opset 17\ngraph g (x: float32[4]) -> (y, z) { y = Log(x) @ \"a\"\n z = Log(y) }";
  const std::string after =
      "opset 17\ngraph h (x: float32[4]) -> (y, z) { n = Neg(x) @ \"n\"\n m = Neg(n)\n y = Log(m) @ \"a\"\n z = Log(y) "
      "}";
  const auto prints = [](const std::string& text) {
    const Graph graph = parse_graph(text, "g");
    std::vector<std::string> result;
    for (const char* output : {"y", "z"}) {
      const Finding finding = {
          .node = graph.value(sample::value(graph, output)).producer, .rule = "FN102", .operand = 0};
      result.push_back(fingerprint(*find_rule("FN102"), place_of(graph, finding), 0, 0));
    }
    return result;
  };
  EXPECT_EQ(prints(before), prints(after));
  EXPECT_NE(prints(before)[0], prints(before)[1]);
}

TEST(Fingerprint, TellsRulesOperandsAndRepetitionsApart) {
  const Place place = {.node = "a", .op = "Log", .scope = "s"};
  std::set<std::string> seen;
  seen.insert(fingerprint(*find_rule("FN102"), place, 0, 0));
  seen.insert(fingerprint(*find_rule("FN103"), place, 0, 0));
  seen.insert(fingerprint(*find_rule("FN102"), place, 1, 0));
  seen.insert(fingerprint(*find_rule("FN102"), place, 0, 1));
  seen.insert(fingerprint(*find_rule("FN102"), {.node = "sa", .op = "Log"}, 0, 0));
  EXPECT_EQ(seen.size(), 5U);
  // Two nodes of the sample are called 'log' and break the same rule.
  const Report report = everything().report();
  std::set<std::string> prints;
  for (const Alarm& alarm : report.alarms) prints.insert(alarm.fingerprint);
  EXPECT_EQ(prints.size(), report.alarms.size());
}

TEST(Known, EntriesOfTheConfigurationAccept) {
  Report report = everything().report();
  Known known;
  known.accept = {{.rule = "FN2", .node = "ex?", .reason = "clipped upstream", .where = "finity.toml:3"},
                  {.rule = "FN102", .node = "choose.*/inner", .where = "finity.toml:6"},
                  {.rule = "FN102", .node = "*", .model = "other.onnx", .where = "finity.toml:9"},
                  {.rule = "FN3", .node = "*", .model = "models/*", .where = "finity.toml:12"},
                  {.rule = "FN9", .node = "*", .where = "finity.toml:15"}};
  accept_known(report, known);
  EXPECT_EQ(report.alarms[0].accepted, Acceptance::config);
  EXPECT_EQ(report.alarms[0].accepted_why, "finity.toml:3: clipped upstream");
  EXPECT_EQ(report.alarms[5].accepted, Acceptance::config);
  EXPECT_EQ(report.counts.accepted, 3U);
  const std::vector<std::string> stale = stale_entries(known, {report}, {.ignore = {"FN9"}});
  ASSERT_EQ(stale.size(), 1U);
  EXPECT_EQ(stale.front(), "finity.toml:12: nothing is accepted by this entry any more: FN3 at '*'");
}

}  // namespace
}  // namespace finity
