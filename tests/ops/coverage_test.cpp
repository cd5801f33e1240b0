// Every op of the table is exercised: by an official ONNX test or by a case of testdata/ops.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

void add_ops(const Graph& graph, std::set<const OpDef*>& seen) {
  for (const Node& node : graph.nodes()) seen.insert(node.op);
}

TEST(OpTable, EveryOpIsExercised) {
  std::set<const OpDef*> seen;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    for (const OpCase& test : parse_cases(read_text_file(entry.path()), entry.path().filename().string())) {
      add_ops(test.graph, seen);
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(onnx_testdata_folder())) {
    if (entry.path().filename() != "model.onnx") continue;
    std::vector<Note> notes;
    add_ops(read_onnx(entry.path(), notes), seen);
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(seen.contains(op)) << op->identity.domain << " " << op->identity.name
                                   << " has neither an official test nor a case";
  }
}

}  // namespace
}  // namespace finity
