#include "check/class_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "check/contract.h"
#include "check_support.h"

namespace finity {
namespace {

using Counts = std::map<std::string, std::int64_t>;

Counts by_name(const Graph& graph, const std::vector<std::int64_t>& counts) {
  Counts result;
  for (const ValueId id : graph.main().inputs) result[graph.value(id).name] = counts[id.at()];
  return result;
}

// Floats that are cast become rows with a single one; padding is replaced first.
TEST(ClassCounts, LabelsChooseFromTheAxisThatTheyAreSpreadAlong) {
  const Graph graph = parse_graph(
      "opset 17\n"
      "graph g (labels: float32[8], padded: bool[8], last: int64[8], x: float32[8]) -> (a, b, c) {\n"
      "  const spare: float32[] = {0}\n"
      "  kept = Where(padded, spare, labels)\n"
      "  whole = Cast(kept) {to = 7}\n"
      "  const depth: int64[] = {10}\n"
      "  const rows: float32[2] = {0, 1}\n"
      "  a = OneHot(whole, depth, rows)\n"
      "  const deep: int64[] = {6}\n"
      "  b = OneHot(last, deep, rows) {axis = 0}\n"
      "  c = Exp(x)\n"
      "}\n",
      "test");
  const Types types = infer_types(graph);
  EXPECT_EQ(by_name(graph, class_counts(graph, types)),
            (Counts{{"labels", 10}, {"padded", -1}, {"last", 6}, {"x", -1}}));
  // What is outside gives a row of zeros, so nothing is refused, and nothing follows for a contract.
  EXPECT_EQ(by_name(graph, indexed_sizes(graph, types)),
            (Counts{{"labels", -1}, {"padded", -1}, {"last", -1}, {"x", -1}}));
}

TEST(ClassCounts, ATableIsIndexedByWhatItsAxisHolds) {
  const Graph graph = parse_graph(
      "opset 17\n"
      "graph g (ids: int64[2, 3], table: float32[30, 4], row: int32[2]) -> (a, b) {\n"
      "  const shape: int64[1] = {-1}\n"
      "  flat = Reshape(ids, shape)\n"
      "  a = Gather(table, flat)\n"
      "  b = Gather(table, row) {axis = 1}\n"
      "}\n",
      "test");
  const Types types = infer_types(graph);
  EXPECT_EQ(by_name(graph, indexed_sizes(graph, types)), (Counts{{"ids", 30}, {"table", -1}, {"row", 4}}));
}

}  // namespace
}  // namespace finity
