// Distances and slopes: what they are, and that both engines compute the same ones.
#include "trigger/objective.h"

#include <gtest/gtest.h>

#include "exec/torch_worker.h"
#include "formats/text/text.h"
#include "tensor/convert.h"

namespace finity {
namespace {

// The logarithm of 2 a - b, whose unsafe values are those up to 0.
struct Line {
  Line() {
    Contract contract;
    add_range(contract, "*:[-10,10]");
    model = check_graph(parse_graph(R"(opset 17
graph g (a: float32[2], b: float32[2]) -> (y: float32[2]) {
  const two: float32[] = {2}
  scaled = Mul(a, two)
  d = Sub(scaled, b)
  y = Log(d)
})",
                                    "test"),
                        contract);
    at.inputs["a"] = from_elements<double>(DType::float32, {2}, std::vector<double>{3, 4});
    at.inputs["b"] = from_elements<double>(DType::float32, {2}, std::vector<double>{1, 6});
    const auto& findings = model.analysis.findings;
    const auto open = std::ranges::find(findings, Verdict::possible, &Finding::verdict);
    objective = Objective::make(model, with_sizes(model, at), static_cast<std::size_t>(open - findings.begin()),
                                model.graph.main().inputs, 0);
  }

  // The second element, 2 * 4 - 6 = 2, is the nearest to 0.
  void expect_right(const Evaluation& found) const {
    EXPECT_EQ(found.distance, 2);
    EXPECT_EQ(found.gradient.at(model.graph.main().inputs[0]), (std::vector<double>{0, 2}));
    EXPECT_EQ(found.gradient.at(model.graph.main().inputs[1]), (std::vector<double>{0, -1}));
  }

  CheckedGraph model;
  Drawn at;
  std::optional<Objective> objective;
};

TEST(Objective, IsTheDistanceOfTheNearestElement) {
  Line line;
  ASSERT_TRUE(line.objective);
  line.expect_right(line.objective->evaluate(line.at, 0, nullptr));
  EXPECT_EQ(line.objective->describe(2), "2 away from <= 0");
}

TEST(Objective, IsTheSameInLibTorch) {
  const std::optional<WorkerOptions> options = torch_worker();
  if (!options) GTEST_SKIP() << kNoTorchWorker;
  Line line;
  ASSERT_TRUE(line.objective);
  Worker worker(*options);
  line.expect_right(line.objective->evaluate(line.at, 0, &worker));
  EXPECT_TRUE(line.objective->was_in_torch());
}

}  // namespace
}  // namespace finity
