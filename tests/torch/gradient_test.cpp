// Derivatives by LibTorch's autograd against central differences of the reference in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"
#include "tensor/convert.h"
#include "torch/torch_support.h"

namespace finity {
namespace {

Graph graph_of(const std::string& lines, const std::string& inputs) {
  return parse_graph("model { ir_version = 10 }\nopset 22\nopset finity 1\nopset com.microsoft 1\ngraph g (" + inputs +
                         ") -> (s) {\n" + lines + "\n  s = ReduceSum(y) {keepdims = 0}\n}\n",
                     "test");
}

double value_at(const Graph& graph, const Inputs& inputs) {
  return elements<double>(*run_reference(graph, inputs).front().tensor()).front();
}

Tensor doubles(std::vector<double> values, Dims dims) {
  return from_elements<double>(DType::float64, std::move(dims), values);
}

// Every element of every input, one at a time.
void check_gradients(const std::string& what, const Graph& graph, const Inputs& inputs) {
  GradientRequest request{.output = "s"};
  for (const auto& [name, datum] : inputs) {
    request.inputs.emplace_back(name, datum);
    request.names.push_back(name);
  }
  const Answer answer = torch_process().gradient({.model = write_onnx(graph), .gradient = request});
  ASSERT_TRUE(answer.done()) << what << ": " << answer.text;
  ASSERT_EQ(answer.outputs.size(), 1U) << what;
  EXPECT_NEAR(elements<double>(*answer.outputs[0].second.tensor()).front(), value_at(graph, inputs), 1e-9) << what;
  for (const auto& [name, gradient] : answer.gradients) {
    const std::vector<double> derived = elements<double>(*gradient.tensor());
    const std::vector<double> at = elements<double>(*inputs.at(name).tensor());
    for (std::size_t i = 0; i < at.size(); ++i) {
      constexpr double kStep = 1e-6;
      const auto shifted = [&](double by) {
        std::vector<double> moved = at;
        moved[i] += by;
        Inputs changed = inputs;
        changed[name] = doubles(moved, inputs.at(name).tensor()->dims());
        return value_at(graph, changed);
      };
      const double expected = (shifted(kStep) - shifted(-kStep)) / (2 * kStep);
      EXPECT_NEAR(derived[i], expected, 1e-6 * std::max(1.0, std::abs(expected)))
          << what << ": " << name << "[" << i << "]";
    }
  }
}

struct Subject {
  std::string lines;
  std::vector<double> x;
};

TEST(TorchGradients, SmoothFunctions) {
  const std::vector<double> anywhere{-2.3, -0.71, 0.4, 1.9}, positive{0.2, 0.9, 2.1, 5.5},
      inside{-0.8, -0.3, 0.25, 0.7};
  const std::vector<Subject> subjects = {
      {"Exp(x)", anywhere},
      {"Sin(x)", anywhere},
      {"Cos(x)", anywhere},
      {"Tan(x)", inside},
      {"Sinh(x)", anywhere},
      {"Cosh(x)", anywhere},
      {"Tanh(x)", anywhere},
      {"Asinh(x)", anywhere},
      {"Atan(x)", anywhere},
      {"Erf(x)", anywhere},
      {"Sigmoid(x)", anywhere},
      {"Softplus(x)", anywhere},
      {"Softsign(x)", anywhere},
      {"Mish(x)", anywhere},
      {"Gelu(x)", anywhere},
      {"Gelu(x) {approximate = \"tanh\"}", anywhere},
      {"Elu(x)", anywhere},
      {"Celu(x) {alpha = 0.7}", anywhere},
      {"Selu(x)", anywhere},
      {"LeakyRelu(x)", anywhere},
      {"HardSigmoid(x)", anywhere},
      {"HardSwish(x)", anywhere},
      {"Relu(x)", anywhere},
      {"Abs(x)", anywhere},
      {"Neg(x)", anywhere},
      {"Reciprocal(x)", anywhere},
      {"Log(x)", positive},
      {"Sqrt(x)", positive},
      {"Acosh(x)", {1.2, 1.9, 3.0, 4.0}},
      {"Asin(x)", inside},
      {"Acos(x)", inside},
      {"Atanh(x)", inside},
      {"finity.Log1p(x)", positive},
      {"finity.Expm1(x)", anywhere},
      {"finity.Rsqrt(x)", positive},
      {"finity.Lgamma(x)", positive},
      {"finity.Digamma(x)", positive},
  };
  for (const Subject& subject : subjects) {
    const Graph graph = graph_of("  y = " + subject.lines, "x: float64[4]");
    check_gradients(subject.lines, graph, {{"x", doubles(subject.x, {4})}});
  }
}

TEST(TorchGradients, TwoOperands) {
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "SwiGLU", "PRelu"}) {
    const bool swiglu = op == "SwiGLU";
    const Graph graph = parse_graph(
        "model { ir_version = 10 }\nopset 27\ngraph g (a: float64[3], b: float64[3]) -> (s) {\n  y = " + op +
            "(a, b)\n  s = ReduceSum(y) {keepdims = 0}\n}\n",
        "test");
    check_gradients(op, graph,
                    {{"a", doubles({0.3, 1.7, 2.2}, {3})}, {"b", doubles({1.1, swiglu ? -0.4 : 0.6, 2.9}, {3})}});
  }
}

// Ops of several elements: sums of products with a fixed pattern, so that no derivative is zero by symmetry.
TEST(TorchGradients, RowsWindowsAndMovements) {
  const std::vector<double> x{0.3, -1.2, 0.8, 2.1, -0.4, 1.5, 0.9, -0.7, 0.1, 1.1, -1.9, 0.6};
  const std::vector<std::string> bodies = {
      "  z = Softmax(x)\n  y = Mul(z, x)",
      "  z = LogSoftmax(x)\n  y = Mul(z, x)",
      "  y = ReduceLogSumExp(x)",
      "  y = ReduceL2(x) {keepdims = 0}",
      "  y = ReduceProd(x)",
      "  t = Transpose(x)\n  y = MatMul(x, t)",
      "  z = CumSum(x, axis)\n  const axis: int64[] = {1}\n  y = Mul(z, x)",
      "  const one: float64[] = {1.5}\n  z = LayerNormalization(x, one) {stash_type = 11}\n  y = Mul(z, x)",
      "  const k: float64[1, 1, 2] = {0.5, -1.5}\n  const shape: int64[3] = {3, 1, 4}\n  r = Reshape(x, shape)\n"
      "  c = Conv(r, k) {auto_pad = \"SAME_UPPER\"}\n  y = Mul(c, r)",
      "  const shape: int64[3] = {1, 3, 4}\n  r = Reshape(x, shape)\n  m = MaxPool(r) {kernel_shape = [2]}\n  y = "
      "Mul(m, m)",
      "  const shape: int64[3] = {1, 3, 4}\n  r = Reshape(x, shape)\n"
      "  m = AveragePool(r) {kernel_shape = [3], pads = [1, 1]}\n  y = Mul(m, m)",
      "  const reps: int64[2] = {2, 1}\n  t = Tile(x, reps)\n  y = Mul(t, t)",
      "  t = Trilu(x)\n  y = Mul(t, t)",
      "  const idx: int64[2] = {2, 0}\n  t = Gather(x, idx)\n  y = Mul(t, t)",
      "  const pads: int64[4] = {1, 0, 0, 1}\n  t = Pad(x, pads) {mode = \"reflect\"}\n  y = Mul(t, t)",
      "  const lab: int64[3] = {1, 3, 0}\n  l = SoftmaxCrossEntropyLoss(x, lab)\n  y = Mul(l, l)",
  };
  for (const std::string& body : bodies) {
    check_gradients(body, graph_of(body, "x: float64[3, 4]"), {{"x", doubles(x, {3, 4})}});
  }
}

TEST(TorchGradients, LoopsAreDerivedThrough) {
  const Graph graph = parse_graph(R"(model { ir_version = 10 }
opset 22
graph g (x: float64[2]) -> (s) {
  const trips: int64[] = {3}
  const go: bool[] = {true}
  y = Loop(trips, go, x) {body = graph b (i: int64[], c: bool[], v: float64[2]) -> (c2, w) {
    c2 = Identity(c)
    e = Sin(v)
    w = Mul(e, x)
  }}
  s = ReduceSum(y) {keepdims = 0}
}
)",
                                  "test");
  check_gradients("Loop", graph, {{"x", doubles({0.7, 1.9}, {2})}});
}

TEST(TorchGradients, HalvesAreDerivedInFloat32AndRounded) {
  const Graph graph = parse_graph(
      "model { ir_version = 10 }\nopset 22\ngraph g (x: float16[2]) -> (s) {\n  y = Exp(x)\n"
      "  s = ReduceSum(y) {keepdims = 0}\n}\n",
      "test");
  const Tensor x = from_elements<double>(DType::float16, {2}, std::vector<double>{0, 1});
  const Answer answer = torch_process().gradient(
      {.model = write_onnx(graph), .gradient = {.inputs = {{"x", x}}, .output = "s", .names = {"x"}}});
  ASSERT_TRUE(answer.done()) << answer.text;
  const Tensor& derived = *answer.gradients.at(0).second.tensor();
  EXPECT_EQ(derived.dtype(), DType::float16);
  EXPECT_NEAR(elements<double>(derived)[1], std::exp(1.0), 4e-3);
}

TEST(TorchGradients, WhatCannotBeDerivedIsSaid) {
  const Graph graph = parse_graph(
      "model { ir_version = 10 }\nopset 22\ngraph g (x: float32[2]) -> (s) {\n"
      "  const scale: float32[] = {0.5}\n  q = QuantizeLinear(x, scale)\n"
      "  d = DequantizeLinear(q, scale) @ \"back\"\n  n = RandomNormalLike(x)\n  y = Add(d, n)\n"
      "  s = ReduceSum(y) {keepdims = 0}\n}\n",
      "test");
  const Answer answer = torch_process().gradient(
      {.model = write_onnx(graph),
       .gradient = {.inputs = {{"x", Tensor(DType::float32, {2})}}, .output = "y", .names = {"x"}}});
  EXPECT_FALSE(answer.done());
}

}  // namespace
}  // namespace finity
