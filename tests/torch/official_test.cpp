// The official ONNX tests in the engine on LibTorch: data made by others, by ONNX's own measure.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "conformance/conformance.h"
#include "exec/compare.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "torch/coverage.h"
#include "torch/torch_support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int passed = 0, unsupported = 0;
};

bool is_lowered(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr || how_lowered(*node.op) == "no") return false;
  }
  return true;
}

void run_data_set(const Graph& graph, const std::string& directory, const std::string& test, Tally& tally) {
  const TestData data = read_test_data(directory, graph);
  const NamedData inputs(data.inputs.begin(), data.inputs.end());
  const Answer answer = run_in_torch(graph, inputs);
  if (answer.outcome == Answer::Outcome::unsupported) {
    if (is_lowered(graph)) std::printf("declined: %s: %s\n", test.c_str(), answer.text.c_str());
    ++tally.unsupported;
    return;
  }
  ASSERT_TRUE(answer.done()) << test << ": " << answer.text;
  bool good = true;
  for (std::size_t i = 0; i < data.outputs.size(); ++i) {
    const Compared result = compare(answer.outputs.at(i).second, data.outputs[i]);
    EXPECT_TRUE(result.within) << test << ": output " << i << ": " << result.why << " " << result.largest_absolute;
    good = good && result.within;
  }
  if (good) ++tally.passed;
}

TEST(TorchOfficial, WhatTheReferencePassesPasses) {
  if (!fs::exists(onnx_testdata_folder() + "/node")) GTEST_SKIP() << "libonnx-testdata is not installed";
  const auto outcomes = read_outcomes(testdata_folder() + "/onnx_conformance.tsv");
  Tally tally;
  for (const std::string& test : official_tests(onnx_testdata_folder())) {
    const auto outcome = outcomes.find(test);
    if (outcome == outcomes.end() || outcome->second.grade == "unsupported") continue;
    std::vector<Note> notes;
    const std::string directory = onnx_testdata_folder() + "/" + test;
    const Graph graph = read_onnx(directory + "/model.onnx", notes);
    run_data_set(graph, directory + "/test_data_set_0", test, tally);
  }
  std::printf("%d official tests pass, %d are not supported\n", tally.passed, tally.unsupported);
  EXPECT_GE(tally.passed, 1059) << "raise this when more is lowered";
}

}  // namespace
}  // namespace finity
