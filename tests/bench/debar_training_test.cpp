// The nine architectures of DEBAR's evaluation are training graphs: each variable that the loss depends on takes a step
// along the derivative, which is compared with differences of the loss.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "bench/debar_graphs.h"
#include "exec/reference.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/tensorflow/training_step.h"
#include "tensor/convert.h"

namespace finity {
namespace {

constexpr double kRate = 0.01;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Variables are fed, and the loss is an output.
Graph open_graph(const std::string& text, const std::string& loss) {
  std::vector<Note> notes;
  const std::string probe =
      "node { name: \"probe\" op: \"Neg\" input: \"" + loss + "\" attr { key: \"T\" value { type: DT_FLOAT } } }\n";
  Graph graph = read_tensorflow(replaced(text, "op: \"VariableV2\"", "op: \"Placeholder\"") + probe, "g.pbtxt", notes);
  EXPECT_TRUE(notes.empty()) << notes.front().where << ": " << notes.front().text;
  return graph;
}

// Nothing is dropped; labels are of one class each; a batch that is not fixed has two samples.
Inputs some_inputs(const Graph& graph) {
  Rng rng(7);
  Inputs inputs;
  for (const ValueId id : graph.main().inputs) {
    const Value& value = graph.value(id);
    Dims dims;
    for (const Dim& dim : value.type.shape) dims.push_back(dim.known() ? dim.size : 2);
    std::vector<double> numbers(static_cast<std::size_t>(element_count(dims)));
    const bool label = value.name.starts_with("y"), pixel = value.name.starts_with("x");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (value.name == "keep_prob") numbers[i] = 1;
      else if (label) numbers[i] = i % 10 == i / 10 % 10 ? 1 : 0;
      else numbers[i] = pixel ? rng.uniform() : 0.1 * rng.normal();
    }
    inputs.emplace(value.name, from_elements<double>(DType::float32, dims, numbers));
  }
  return inputs;
}

std::vector<double> result(const Graph& graph, const std::vector<Datum>& results, const std::string& name) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (graph.value(graph.main().outputs[i]).name == name) return elements<double>(*results[i].tensor());
  }
  ADD_FAILURE() << "no output is called " << name;
  return {0};
}

double loss_with(const Graph& graph, Inputs inputs, const std::string& variable, std::size_t element, double change) {
  const Tensor weight = *inputs.at(variable).tensor();
  std::vector<double> numbers = elements<double>(weight);
  numbers[element] += change;
  inputs.at(variable) = Datum(from_elements<double>(DType::float32, weight.dims(), numbers));
  return -result(graph, run_reference(graph, inputs), "probe").front();
}

class DebarTraining : public testing::TestWithParam<std::size_t> {};

TEST_P(DebarTraining, StepsAlongTheDerivativeOfTheLoss) {
  const DebarGraph& subject = debar_graphs()[GetParam()];
  for (const bool repaired : {false, true}) {
    const std::string text = subject.make(repaired);
    const auto training = tensorflow_training(text, subject.name);
    ASSERT_TRUE(training);
    EXPECT_EQ(training->optimiser, "ApplyGradientDescent");
    const Graph graph = open_graph(text, training->loss);
    const Inputs inputs = some_inputs(graph);
    const std::vector<Datum> results = run_reference(graph, inputs);
    Rng rng(11);
    for (const TensorFlowVariable& variable : training->variables) {
      ASSERT_FALSE(variable.loss.empty()) << variable.name << " is not trained";
      const std::vector<double> before = elements<double>(*inputs.at(variable.name).tensor());
      const std::vector<double> after =
          result(graph, results, "GradientDescent/update_" + variable.name + "/ApplyGradientDescent");
      ASSERT_EQ(before.size(), after.size());
      // One that matters: the largest of a few.
      std::size_t at = 0;
      for (int i = 0; i < 20; ++i) {
        const std::size_t other = rng.below(before.size());
        if (std::abs(after[other] - before[other]) > std::abs(after[at] - before[at])) at = other;
      }
      const double slope = (before[at] - after[at]) / kRate;
      constexpr double kStep = 1e-2;
      const double rise = loss_with(graph, inputs, variable.name, at, kStep);
      const double fall = loss_with(graph, inputs, variable.name, at, -kStep);
      EXPECT_NEAR((rise - fall) / (2 * kStep), slope, 5e-3 + 0.03 * std::abs(slope))
          << subject.name << " " << variable.name << " " << at;
    }
  }
}

// All but the spatial transformer, whose batch of 101 images the naive reference would take long for: below.
INSTANTIATE_TEST_SUITE_P(All, DebarTraining, testing::Values(0, 2, 3, 4, 7, 8), [](const auto& info) {
  std::string name = debar_graphs()[info.param].name;
  std::erase(name, '-');
  return name;
});

TEST(DebarTransformer, TrainsWhereItLooks) {
  const DebarGraph& subject = debar_graphs()[1];
  const std::string text = subject.make(false);
  const auto training = tensorflow_training(text, subject.name);
  ASSERT_TRUE(training);
  const Graph graph = open_graph(text, training->loss);
  // It looks at the middle of its images: at their borders, where pixels are repeated, the program's result jumps.
  Inputs inputs = some_inputs(graph);
  const std::string name = "locate2/biases";
  inputs.at(name) = Datum(from_elements<double>(DType::float32, {6}, std::vector<double>{0.4, 0, 0, 0, 0.4, 0}));
  const Dims dims = inputs.at("locate2/weights").tensor()->dims();
  inputs.at("locate2/weights") = Datum(Tensor(DType::float32, dims));
  const std::vector<double> before = elements<double>(*inputs.at(name).tensor());
  const std::vector<double> after =
      result(graph, run_reference(graph, inputs), "GradientDescent/update_" + name + "/ApplyGradientDescent");
  const double slope = (before[2] - after[2]) / kRate;
  const double rise = loss_with(graph, inputs, name, 2, 1e-3);
  const double fall = loss_with(graph, inputs, name, 2, -1e-3);
  EXPECT_NEAR((rise - fall) / 2e-3, slope, 0.05 * std::abs(slope) + 1);
}

}  // namespace
}  // namespace finity
