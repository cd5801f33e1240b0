// The nine architectures of DEBAR's evaluation are training graphs: each variable that the loss depends on takes a step
// along the derivative, which is compared with differences of the loss. The graphs compute in float64 here, so that the
// differences are exact enough to tell a derivative of 1e-6 from one that is missing.
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

std::string in_double(const std::string& text) {
  return replaced(replaced(text, "DT_FLOAT", "DT_DOUBLE"), "float_val", "double_val");
}

// Variables are fed, and the loss is an output.
Graph open_graph(const std::string& text, const std::string& loss) {
  std::vector<Note> notes;
  const std::string probe =
      "node { name: \"probe\" op: \"Neg\" input: \"" + loss + "\" attr { key: \"T\" value { type: DT_DOUBLE } } }\n";
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
    inputs.emplace(value.name, from_elements<double>(DType::float64, dims, numbers));
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
  inputs.at(variable) = Datum(from_elements<double>(DType::float64, weight.dims(), numbers));
  return -result(graph, run_reference(graph, inputs), "probe").front();
}

// The slope of the loss, by differences with two steps of which one is half as wide: they differ where the loss has a
// kink between them, and nothing can be said.
void expect_slope(const Graph& graph, const Inputs& inputs, const std::string& variable, std::size_t element,
                  double slope, double step, const std::string& where) {
  const auto difference = [&](double h) {
    return (loss_with(graph, inputs, variable, element, h) - loss_with(graph, inputs, variable, element, -h)) / (2 * h);
  };
  const double wide = difference(2 * step), narrow = difference(step);
  ASSERT_NEAR(wide, narrow, 1e-4 * std::abs(narrow)) << where << ": a kink";
  EXPECT_NEAR(narrow, slope, 1e-4 * std::abs(slope)) << where;
}

class DebarTraining : public testing::TestWithParam<std::size_t> {};

TEST_P(DebarTraining, StepsAlongTheDerivativeOfTheLoss) {
  const DebarGraph& subject = debar_graphs()[GetParam()];
  for (const bool repaired : {false, true}) {
    const std::string text = in_double(subject.make(repaired));
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
      EXPECT_GT(std::abs(slope), 1e-9) << subject.name << " " << variable.name << " does not move";
      expect_slope(graph, inputs, variable.name, at, slope, 1e-5,
                   subject.name + " " + variable.name + " " + std::to_string(at));
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
  const std::string text = in_double(subject.make(false));
  const auto training = tensorflow_training(text, subject.name);
  ASSERT_TRUE(training);
  const Graph graph = open_graph(text, training->loss);
  // It looks at the middle of its images: at their borders, where pixels are repeated, the program's result jumps.
  Inputs inputs = some_inputs(graph);
  const std::string name = "locate2/biases";
  inputs.at(name) = Datum(from_elements<double>(DType::float64, {6}, std::vector<double>{0.4, 0, 0, 0, 0.4, 0}));
  const Dims dims = inputs.at("locate2/weights").tensor()->dims();
  inputs.at("locate2/weights") = Datum(Tensor(DType::float64, dims));
  const std::vector<double> before = elements<double>(*inputs.at(name).tensor());
  const std::vector<double> after =
      result(graph, run_reference(graph, inputs), "GradientDescent/update_" + name + "/ApplyGradientDescent");
  const double slope = (before[2] - after[2]) / kRate;
  EXPECT_GT(std::abs(slope), 1e-9);
  // Each of 160,000 places is between two pixels, and passes one every now and then.
  expect_slope(graph, inputs, name, 2, slope, 1e-9, subject.name);
}

}  // namespace
}  // namespace finity
