// Descriptions of programs: what they mean, and what is said of wrong ones.
#include "program/program.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "formats/text/text.h"
#include "program/data.h"
#include "program/digits.h"
#include "program/draws.h"
#include "program/optimiser.h"
#include "program/read_program.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

constexpr std::string_view kModel = R"(opset 17
graph g (x: float32[N, 2], y: float32[N, 1], w: float32[2, 1]) -> (loss: float32[]) {
  h = MatMul(x, w)
  d = Sub(h, y)
  s = Mul(d, d)
  loss = ReduceMean(s) {keepdims = 0}
})";

constexpr std::string_view kProgram = R"x(model = "m.txt"
loss = "loss"
batch = 3
[inputs.x]
values = [[0, 1], [2, 3], [4, 5], [6, 7]]
[inputs.y]
values = [[1], [0], [1], [0]]
change = false
[weights.w]
init = "uniform(-1, 1)"
range = [-1, 1]
[optimiser]
kind = "adam"
rate = 0.1
)x";

Program parsed(const std::string& text) {
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(kModel, "m.txt"));
  return parse_program(text, "p.toml", "", parts);
}

std::string error_of(const std::string& text) {
  try {
    parsed(text);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string with(std::string_view old_text, std::string_view new_text) {
  std::string text(kProgram);
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return text.replace(at, old_text.size(), new_text);
}

TEST(ProgramDescription, SaysWhatItSays) {
  const Program program = parsed(std::string(kProgram));
  EXPECT_EQ(program.batch, 3);
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_TRUE(program.inputs[0].batched);
  EXPECT_EQ(program.inputs[0].data.dims(), (Dims{4, 2}));
  EXPECT_EQ(program.inputs[0].range->lo, 0);  // of the data
  EXPECT_EQ(program.inputs[0].range->hi, 7);
  EXPECT_TRUE(*program.inputs[0].change);
  EXPECT_FALSE(*program.inputs[1].change);
  EXPECT_EQ(program.optimiser.kind, Optimiser::Kind::adam);
  EXPECT_EQ(program.types[program.inputs[0].id].dims(), (Dims{3, 2}));
}

TEST(ProgramDescription, PrintsWhatReadsBackTheSame) {
  const Program program = parsed(std::string(kProgram));
  const PrintedProgram printed = print_program(program, "m.txt", "given:");
  ProgramParts parts = {.graph = program.graph, .data = printed.data};
  const Program again = parse_program(printed.text, "p.toml", "", parts);
  EXPECT_TRUE(identical(again.inputs[0].data, program.inputs[0].data));
  EXPECT_EQ(again.weights[0].range->hi, 1);
  EXPECT_EQ(again.optimiser.rate, 0.1);
  EXPECT_EQ(print_program(again, "m.txt", "given:").text, printed.text);
}

TEST(ProgramDescription, WrongOnesAreToldWithLineAndReason) {
  const auto expect = [](const std::string& text, std::string_view line, std::string_view reason) {
    const std::string error = error_of(text);
    EXPECT_TRUE(error.starts_with(line)) << error;
    EXPECT_NE(error.find(reason), std::string::npos) << error;
  };
  expect(with("batch = 3", "batch = 0"), "p.toml:3", "at least 1");
  expect(with("batch = 3", "bach = 3"), "p.toml:3", "bach");
  expect(with("[inputs.x]", "[inputs.z]"), "p.toml:4", "no input named 'z'");
  expect(with("[2, 3]", "[2]"), "p.toml:5", "different lengths");
  expect(with("[[1], [0], [1], [0]]", "[[1], [0]]"), "p.toml:", "samples");
  expect(with("uniform(-1, 1)", "uniform(1)"), "p.toml:10", "takes 2 numbers");
  expect(with("uniform(-1, 1)", "gauss(1)"), "p.toml:10", "none of zeros");
  expect(with("\"adam\"", "\"adamant\""), "p.toml:13", "none of sgd");
  expect(with("rate = 0.1", "rate = -1"), "p.toml:14", "negative");
  expect(with("loss = \"loss\"", "loss = \"d\""), "p.toml:2", "one element");
  expect(with("range = [-1, 1]", "range = [1, -1]"), "p.toml:11", "empty");
  expect(with("[weights.w]", "[inputs.w]"), "p.toml:", "");
  // What is drawn is no data: nothing that is said of it may be lost.
  expect(with("values = [[1], [0], [1], [0]]", "draw = \"integers(0,3)\"\none_hot = 3"), "p.toml:8", "one_hot");
  expect(with("values = [[1], [0], [1], [0]]", "draw = \"zeros\"\nscale = [0, 1]"), "p.toml:8", "scale");
}

// Four rows in batches of two, and a matrix of two rows that is no sample.
TEST(ProgramDescription, AMatrixAsLongAsTheBatchIsNoSample) {
  constexpr std::string_view kModel = R"(opset 17
graph g (x: float32[N, 2], eye: float32[2, 2]) -> (loss: float32[]) {
  m = Mul(x, eye)
  loss = ReduceSum(m) {keepdims = 0}
})";
  ProgramParts parts;
  parts.graph = std::make_shared<const Graph>(parse_graph(kModel, "m.txt"));
  const Program program = parse_program(R"(batch = 2
[inputs.eye]
values = [[1, 0], [0, 1]]
[inputs.x]
values = [[1, 2], [3, 4], [5, 6], [7, 8]]
)",
                                        "p.toml", "", parts);
  EXPECT_FALSE(program.inputs[0].batched);
  EXPECT_TRUE(program.inputs[1].batched);
}

TEST(Data, ReadsIdxCsvAndNpz) {
  const std::string folder = testing::TempDir();
  const auto file = [&](const char* name) { return folder + "/" + name; };
  write_file_atomically(file("a.idx"), std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\xff", 16));
  const LoadedData idx = load_data("idx:a.idx", folder);
  EXPECT_EQ(idx.tensor.dims(), (Dims{2, 2}));
  EXPECT_EQ(elements<double>(idx.tensor), (std::vector<double>{1, 2, 3, 255}));
  EXPECT_EQ(elements<double>(rescaled(idx.tensor, idx.lo, idx.hi, 0, 1))[3], 1);
  write_file_atomically(file("a.csv"), "size,kind\n1.5,red\n2,blue\n3,red\n");
  EXPECT_EQ(elements<double>(load_data("csv:a.csv#size", folder).tensor), (std::vector<double>{1.5, 2, 3}));
  const Tensor kinds = load_data("csv:a.csv#kind", folder).tensor;
  EXPECT_EQ(elements<double>(one_hot(kinds, 2)), (std::vector<double>{1, 0, 0, 1, 1, 0}));
  EXPECT_THROW(load_data("csv:a.csv#colour", folder), Error);
  EXPECT_THROW(load_data("idx:a.csv", folder), Error);
  EXPECT_THROW(load_data("npz:missing.npz#x", folder), Error);
  EXPECT_THROW(one_hot(kinds, 1), Error);
}

// The same numbers everywhere, ten classes that differ more between than within them.
TEST(Digits, AreImagesOfTenClasses) {
  const std::int64_t count = 300;
  const Tensor images = digit_images(count), labels = digit_labels(count);
  EXPECT_TRUE(identical(images, digit_images(count)));
  const std::span<const float> pixels = images.data<float>();
  EXPECT_EQ(*std::ranges::min_element(pixels), 0);
  EXPECT_EQ(*std::ranges::max_element(pixels), 1);
  const auto zeros = std::ranges::count(pixels, 0.0f);
  EXPECT_GT(static_cast<double>(zeros) / static_cast<double>(pixels.size()), 0.6);
  std::vector<std::vector<double>> means(10, std::vector<double>(784));
  std::vector<double> counts(10);
  for (std::size_t i = 0; i < 300; ++i) {
    const auto label = static_cast<std::size_t>(labels.data<std::int64_t>()[i]);
    ++counts[label];
    for (std::size_t k = 0; k < 784; ++k) means[label][k] += pixels[i * 784 + k];
  }
  int right = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    std::vector<double> away(10);
    for (std::size_t c = 0; c < 10; ++c) {
      for (std::size_t k = 0; k < 784; ++k) away[c] += std::pow(means[c][k] / counts[c] - pixels[i * 784 + k], 2);
    }
    const auto nearest = std::ranges::min_element(away) - away.begin();
    right += nearest == labels.data<std::int64_t>()[i];
  }
  EXPECT_GT(right, 200);  // the nearest mean tells the class
}

TEST(Draws, AreWhatTheyAreCalled) {
  const std::vector<double> normal = elements<double>(drawn(parse_draw("normal(2)"), DType::float64, {4000}, 1));
  double mean = 0, square = 0;
  for (const double x : normal) mean += x / 4000, square += x * x / 4000;
  EXPECT_NEAR(mean, 0, 0.15);
  EXPECT_NEAR(square, 4, 0.3);
  for (const double x : elements<double>(drawn(parse_draw("truncated_normal(0.1)"), DType::float64, {500}, 1))) {
    EXPECT_LE(std::abs(x), 0.2);
  }
  for (const double x : elements<double>(drawn(parse_draw("xavier_uniform"), DType::float64, {100, 50}, 1))) {
    EXPECT_LE(std::abs(x), 0.2);  // sqrt(6 / 150)
  }
}

// One step each on w = 1, slope 0.5, worked out by hand from the definitions.
TEST(Optimisers, StepAsDefined) {
  const auto after = [](Optimiser optimiser, int steps) {
    std::vector<double> weight = {1};
    OptimiserState<double> state;
    for (int step = 1; step <= steps; ++step) {
      optimiser_step<double>(optimiser, step, weight, std::vector<double>{0.5}, state);
    }
    return weight[0];
  };
  using Kind = Optimiser::Kind;
  EXPECT_DOUBLE_EQ(after({.kind = Kind::sgd, .rate = 0.1}, 2), 0.9);
  EXPECT_DOUBLE_EQ(after({.kind = Kind::momentum, .rate = 0.1, .momentum = 0.9}, 2), 1 - 0.05 - 0.095);
  EXPECT_NEAR(after({.kind = Kind::nesterov, .rate = 0.1, .momentum = 0.9}, 1), 1 - 0.095, 1e-12);
  EXPECT_NEAR(after({.kind = Kind::adagrad, .rate = 0.1, .epsilon = 0, .accumulator = 0}, 1), 0.9, 1e-12);
  EXPECT_NEAR(after({.kind = Kind::rmsprop, .rate = 0.1, .decay = 0.75, .epsilon = 0}, 1), 0.8, 1e-12);
  EXPECT_NEAR(after({.kind = Kind::adam, .rate = 0.1}, 1), 0.9, 1e-6);
  EXPECT_NEAR(after({.kind = Kind::adam, .rate = 0.1}, 3), 0.7, 1e-6);
  EXPECT_NEAR(after({.kind = Kind::adamw, .rate = 0.1, .weight_decay = 0.1}, 1), 0.89, 1e-6);
  EXPECT_NEAR(after({.kind = Kind::adamax, .rate = 0.1}, 1), 0.9, 1e-6);
  // Squares 0.25, their root 0.5; what pulls to 1 is 0.5 / 0.5, so linear is 0.5 - 1; the divisor is 0.5 / 0.5 + 2 l2.
  const Optimiser ftrl = {.kind = Kind::ftrl, .rate = 0.5, .accumulator = 0};
  const auto with = [&](double l1, double l2, double shrinkage) {
    Optimiser optimiser = ftrl;
    optimiser.l1 = l1, optimiser.l2 = l2, optimiser.shrinkage = shrinkage;
    return optimiser;
  };
  EXPECT_DOUBLE_EQ(after(ftrl, 1), 0.5);
  EXPECT_DOUBLE_EQ(after(with(0.25, 0.5, 0), 1), 0.125);  // (0.5 - 0.25) / 2
  EXPECT_DOUBLE_EQ(after(with(0.5, 0, 0), 1), 0);         // l1 holds it
  EXPECT_DOUBLE_EQ(after(with(0, 0, 0.125), 1), 0.25);    // 2 * 0.125 more in linear
  EXPECT_DOUBLE_EQ(after({.kind = Kind::ftrl, .rate = 0.25, .accumulator = 0, .power = 1}, 1), 0.5);
  // Without l1 and l2, and with nothing before the first gradient, it is Adagrad.
  EXPECT_NEAR(after(ftrl, 5), after({.kind = Kind::adagrad, .rate = 0.5, .epsilon = 0, .accumulator = 0}, 5), 1e-12);
  EXPECT_DOUBLE_EQ(after({.kind = Kind::sgd, .rate = 0.1, .rate_decay = 0.5, .rate_decay_steps = 2}, 4), 1 - 0.15);
}

}  // namespace
}  // namespace finity
