// Whole models in the engine on LibTorch: the example patterns, whose faults give the same NaN and infinities there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "exec/compare.h"
#include "exec/draw.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "tensor/convert.h"
#include "torch/torch_support.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

// Random inputs; integers are indices of tables with at least two rows.
Inputs drawn(const Graph& graph) {
  Bindings sizes;
  for (const std::string& symbol : graph.symbols()) sizes.symbols[symbol] = 3;
  Inputs inputs;
  draw_inputs(graph, infer_types(graph, sizes), 1, inputs);
  for (auto& [name, datum] : inputs) {
    if (datum.tensor() == nullptr || !is_int(datum.tensor()->dtype())) continue;
    std::vector<std::int64_t> values = elements<std::int64_t>(*datum.tensor());
    for (std::int64_t& value : values) value %= 2;
    datum = from_elements<std::int64_t>(datum.tensor()->dtype(), datum.tensor()->dims(), values);
  }
  return inputs;
}

TEST(TorchModels, PatternsGiveWhatTheReferenceGives) {
  int agreed = 0;
  for (const auto& entry : fs::directory_iterator(examples_folder() + "/patterns")) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string where = entry.path().filename().string();
    std::vector<Note> notes;
    const Graph graph = read_onnx(entry.path().string(), notes);
    const bool random = std::ranges::any_of(
        graph.nodes(), [](const Node& node) { return node.op != nullptr && node.op->traits.random; });
    const Inputs inputs = drawn(graph);
    const std::vector<Datum> expected = run_reference(graph, inputs);
    const Answer answer = run_in_torch(graph, NamedData(inputs.begin(), inputs.end()));
    ASSERT_TRUE(answer.done()) << where << ": " << name(answer.outcome) << ": " << answer.text;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Compared result = compare(answer.outputs.at(i).second, expected[i], {.relative = 4e-3, .absolute = 1e-5});
      EXPECT_TRUE(result.within || random) << where << ": output " << i << " " << result.why << result.largest_absolute;
    }
    ++agreed;
  }
  EXPECT_GE(agreed, 50);
}

}  // namespace
}  // namespace finity
