// Losses and optimisers against the same formulas written with numbers, and gradients in public ops against the op
// table's own.
#include "muffin/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "fuzz/backward.h"
#include "fuzz/public_steps.h"
#include "muffin/verdict.h"
#include "program/optimiser.h"
#include "tensor/convert.h"

namespace finity::muffin {
namespace {

Tensor row(std::vector<float> values) {
  return Tensor::of<float>(DType::float32, {1, static_cast<std::int64_t>(values.size())}, values);
}

double loss_of(std::string_view name, const Tensor& p, const Tensor& y) {
  Net net(Weights::scaled);
  const ValueId a = net.input("p", DType::float32, p.dims()), b = net.input("y", DType::float32, y.dims());
  net.writer().add_output(add_loss(net, name, a, b));
  const Graph graph = std::move(net.writer()).finish().graph;
  return element_as_double(*run_reference(graph, {{"p", p}, {"y", y}})[0].tensor(), 0);
}

TEST(Losses, HaveTheValuesOfTheirFormulas) {
  const Tensor p = row({0.2F, 0.5F, 0.3F}), y = row({0.0F, 1.0F, 0.0F});
  const double a = 0.2, b = 0.5, c = 0.3;
  const auto sq = [](double x) { return x * x; };
  const std::vector<std::pair<std::string_view, double>> cases = {
      {"mean_squared_error", (sq(a) + sq(1 - b) + sq(c)) / 3},
      {"mean_absolute_error", (a + 1 - b + c) / 3},
      {"mean_absolute_percentage_error", 100 * (a / 1e-7 + 0.5 + c / 1e-7) / 3},
      {"mean_squared_logarithmic_error",
       (sq(std::log(1 + a)) + sq(std::log(1 + b) - std::log(2)) + sq(std::log(1 + c))) / 3},
      {"squared_hinge", (1 + sq(1 - b) + 1) / 3},
      {"categorical_hinge", std::max(0.0, c - b + 1)},
      {"logcosh", (std::log(std::cosh(a)) + std::log(std::cosh(1 - b)) + std::log(std::cosh(c))) / 3},
      {"huber", (sq(a) + sq(1 - b) + sq(c)) / 6},
      {"categorical_crossentropy", -std::log(b)},
      {"binary_crossentropy", -(std::log(1 - a) + std::log(b) + std::log(1 - c)) / 3},
      {"kullback_leibler_divergence", std::log(1 / b)},
      {"poisson", (a + b - std::log(b) + c) / 3},
      {"cosine_proximity", -b / std::sqrt(a * a + b * b + c * c)}};
  EXPECT_EQ(cases.size(), loss_names().size());
  for (const auto& [name, expected] : cases)
    EXPECT_NEAR(loss_of(name, p, y), expected, 1e-5 * std::max(1.0, std::abs(expected))) << name;
}

Tensor stepped(std::string_view name, const Tensor& w, const Tensor& g) {
  Net net(Weights::scaled);
  const ValueId a = net.input("w", DType::float32, w.dims()), b = net.input("g", DType::float32, g.dims());
  net.writer().add_output(add_step(net, name, a, b));
  const Graph graph = std::move(net.writer()).finish().graph;
  return *run_reference(graph, {{"w", w}, {"g", g}})[0].tensor();
}

TEST(Optimisers, StepAsTheProgramsOptimisersDo) {
  const Tensor w = row({0.5F, -1, 2}), g = row({0.3F, -0.02F, 4});
  const std::vector<std::pair<std::string_view, Optimiser>> cases = {
      {"sgd", {.kind = Optimiser::Kind::sgd, .rate = 0.01}},
      {"rmsprop", {.kind = Optimiser::Kind::rmsprop, .rate = 0.001, .decay = 0.9, .epsilon = 1e-7}},
      {"adagrad", {.kind = Optimiser::Kind::adagrad, .rate = 0.01, .epsilon = 1e-7, .accumulator = 0}},
      {"adadelta", {.kind = Optimiser::Kind::adadelta, .rate = 1, .decay = 0.95, .epsilon = 1e-7}},
      {"adam", {.kind = Optimiser::Kind::adam, .rate = 0.001, .epsilon = 1e-7}},
      {"adamax", {.kind = Optimiser::Kind::adamax, .rate = 0.002, .epsilon = 1e-7}}};
  for (const auto& [name, optimiser] : cases) {
    std::vector<double> weights = elements<double>(w);
    OptimiserState<double> state;
    optimiser_step<double>(optimiser, 1, weights, elements<double>(g), state);
    const Tensor moved = stepped(name, w, g);
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_NEAR(moved.data<float>()[i], weights[i], 3e-6) << name << " " << i;
  }
  // Nadam: its first step goes further than Adam's, in the same direction.
  const Tensor nadam = stepped("nadam", w, g);
  for (std::size_t i = 0; i < 3; ++i) {
    const double move = w.data<float>()[i] - nadam.data<float>()[i];
    EXPECT_GT(move * g.data<float>()[i], 0);
    EXPECT_GT(std::abs(move), 0.002);
    EXPECT_LT(std::abs(move), 0.004);
  }
}

// Libraries' own optimisers, for gradients that are not tiny: where epsilons stand is each library's choice.
TEST(Optimisers, LibrariesStepAsTheFormulasDo) {
  const Tensor w = row({0.5F, -1, 2}), g = row({0.3F, -0.02F, 4});
  const fuzz::Sample any = fuzz::sample_of(
      [] {
        Net net(Weights::scaled);
        const ValueId x = net.input("x", DType::float32, {1});
        net.writer().add_output(net.add("Neg", {x}));
        return std::move(net.writer()).finish().graph;
      }(),
      {{"x", row({1}).reshaped({1})}});
  int compared = 0;
  for (const BackendName& name : installed_backends()) {
    // Kernels of older versions are missing or wrong.
    if (!name.kind->derives || (!name.version.empty() && older(name.version, "4.0.0"))) continue;
    fuzz::Backend backend({.family = std::string(name.kind->name), .version = name.version});
    for (const std::string_view optimiser : optimiser_names()) {
      const Answer answer = backend.worker().task(
          {.model = write_onnx(fuzz::graph(any)),
           .task = {.text = "optimiser " + std::string(optimiser), .data = {{"w", w}, {"g", g}}}});
      if (answer.outcome == Answer::Outcome::unsupported) continue;
      ASSERT_TRUE(answer.done()) << to_string(name) << " " << optimiser << ": " << answer.text;
      // A fault of TensorFlow.js (docs/findings.md): its mean square is that before this gradient, so the first step is
      // the gradient itself.
      const bool late = optimiser == "adadelta" && name.kind->name.starts_with("tfjs");
      const Tensor expected = late ? row({0.2F, -0.98F, -2}) : stepped(optimiser, w, g);
      ASSERT_EQ(answer.outputs.size(), 1U);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(answer.outputs[0].second.tensor()->data<float>()[i], expected.data<float>()[i], 2e-5)
            << to_string(name) << " " << optimiser << " " << i;
      ++compared;
    }
  }
  std::printf("%d optimisers of libraries\n", compared);
}

// The loss is a weighted sum of a window's results.
fuzz::Sample window(std::string_view op, const Dims& x, std::vector<Attribute> attrs, const Dims& weight, Rng& rng) {
  Net net(Weights::scaled);
  net.seed(rng.bits());
  const ValueId in = net.input("x", DType::float32, x);
  std::vector<ValueId> operands = {in};
  if (!weight.empty()) operands.push_back(net.weight(weight, 4));
  const ValueId y = net.add(op, operands, std::move(attrs));
  net.writer().add_output(net.add("Mul", {y, net.weight(net.dims(y), 1)}));
  std::vector<float> values(static_cast<std::size_t>(element_count(x)));
  for (float& value : values) value = static_cast<float>(rng.normal());
  const Graph graph = std::move(net.writer()).finish().graph;
  return fuzz::sample_of(graph, {{"x", Tensor::of<float>(DType::float32, x, values)}});
}

// The derivative by every element of x, by differences.
void expect_derivatives(const fuzz::Sample& sample, const char* what) {
  const std::optional<fuzz::Backward> backward = fuzz::with_backward(sample);
  ASSERT_TRUE(backward) << what;
  for (const fuzz::Step& step : backward->sample.steps) EXPECT_TRUE(step.domain.empty()) << what;
  const auto value_of = [&](const fuzz::Sample& at, const std::string& name) {
    fuzz::Sample one = at;
    one.outputs = {name};
    fuzz::drop_unneeded(one);
    return *run_reference(fuzz::graph(one), fuzz::inputs_of(one))[0].tensor();
  };
  for (const auto& [of, name] : backward->derivatives) {
    const Tensor slope = value_of(backward->sample, name);
    const bool input = of == "x";
    for (std::int64_t i = 0; i < slope.size(); i += 3) {
      double sides[2];
      for (const int side : {0, 1}) {
        fuzz::Sample moved = backward->sample;
        Tensor& tensor = (input ? moved.inputs : moved.constants).find(of)->second;
        tensor.mutable_data<float>()[static_cast<std::size_t>(i)] += side == 0 ? -0.01F : 0.01F;
        sides[side] = element_as_double(value_of(moved, backward->loss), 0);
      }
      EXPECT_NEAR(element_as_double(slope, i), (sides[1] - sides[0]) / 0.02, 5e-3) << what << " by " << of << " " << i;
    }
  }
}

TEST(PublicSteps, WindowsHaveDerivativesThatEveryLibraryRuns) {
  Rng rng(3);
  const Ints two = {2, 2}, three = {3, 3}, uneven = {1, 0, 1, 2}, none = {0, 0, 0, 0};
  expect_derivatives(
      window("Conv", {2, 2, 7, 6}, {{"strides", two}, {"pads", uneven}, {"kernel_shape", three}}, {3, 2, 3, 3}, rng),
      "strided convolution");
  expect_derivatives(window("Conv", {1, 4, 7, 7}, {{"dilations", two}, {"group", std::int64_t{2}}}, {2, 2, 3, 3}, rng),
                     "dilated groups");
  expect_derivatives(
      window("AveragePool", {1, 2, 7, 5}, {{"kernel_shape", three}, {"strides", two}, {"pads", uneven}}, {}, rng),
      "average");
  expect_derivatives(
      window("MaxPool", {1, 2, 7, 5}, {{"kernel_shape", three}, {"strides", two}, {"pads", none}}, {}, rng), "maximum");
  expect_derivatives(window("MaxPool", {2, 1, 6, 6},
                            {{"kernel_shape", two}, {"strides", Ints{1, 3}}, {"pads", Ints{1, 0, 1, 1}}}, {}, rng),
                     "maximum with padding");
}

}  // namespace
}  // namespace finity::muffin
