// Random graphs: whatever the reference computes on inputs inside the premises lies in its range, in every mode of
// the analysis, and so do the relations it relied on. FINITY_GRAPHS="FIRST COUNT" looks at other seeds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "check/verify.h"
#include "formats/text/text.h"
#include "support/graph_generator.h"
#include "support/shown_ranges.h"

namespace finity {
namespace {

constexpr int kDraws = 12;

struct GraphTotals {
  std::size_t proved = 0;
  std::size_t possible = 0;
  VerifyReport report = {};
};

void look_at(std::uint64_t seed, const RangeSettings& settings, GraphTotals& totals) {
  const RandomModel model = random_model(seed);
  const Graph graph = parse_graph(model.text, "seed " + std::to_string(seed));
  const Types types = infer_types(graph);
  const Premises given = premises(graph, types, model.contract, settings.max_cells);
  const Analysis analysis = analyze(graph, types, given, {.ranges = settings});
  EXPECT_LE(analysis.modelled_nodes, graph.nodes().size()) << "seed " << seed;
  EXPECT_EQ(end_outside_format(graph, analysis), "") << "seed " << seed << "\n" << model.text;
  for (const Finding& finding : analysis.findings) {
    ++(finding.verdict == Verdict::proved ? totals.proved : totals.possible);
  }
  Rng rng(seed);
  for (int number = 0; number < kDraws; ++number) {
    const Drawn drawn = draw_inside(graph, types, given, rng, number);
    verify_run(graph, analysis, drawn, static_cast<std::uint64_t>(number), totals.report);
  }
}

struct Mode {
  const char* name;
  RangeSettings settings = {};
};

class RandomGraphs : public testing::TestWithParam<Mode> {};

TEST_P(RandomGraphs, LieInTheirRanges) {
  std::uint64_t first = 1, count = 400;
  if (const char* asked = std::getenv("FINITY_GRAPHS"); asked != nullptr) std::istringstream(asked) >> first >> count;
  GraphTotals totals;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    try {
      look_at(seed, GetParam().settings, totals);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << random_model(seed).text;
    }
  }
  std::cout << totals.proved << " proved, " << totals.possible << " possible, " << totals.report.tensors << " tensors ("
            << totals.report.vacuous << " vacuous, " << totals.report.skipped << " skipped), " << totals.report.failed
            << " runs stopped: " << totals.report.first_failure << "\n";
  EXPECT_GT(totals.proved, count);
  EXPECT_GT(totals.possible, count / 2);
  EXPECT_EQ(totals.report.failed, 0);
  EXPECT_LT(totals.report.vacuous, totals.report.tensors / 2);
}

INSTANTIATE_TEST_SUITE_P(In, RandomGraphs,
                         testing::Values(Mode{.name = "partition"}, Mode{.name = "smash", .settings = {.max_cells = 1}},
                                         Mode{.name = "expand", .settings = {.max_cells = 65536}},
                                         Mode{.name = "interval", .settings = {.affine = false}},
                                         Mode{.name = "flushed", .settings = {.flush_subnormals = true}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace finity
