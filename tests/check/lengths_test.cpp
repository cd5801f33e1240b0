// Lengths of rows: what the reference computes is never longer than was claimed, for random networks in every format
// and for inputs that are turned towards the largest results; and deep networks are proved by them.
#include "ops/shared/lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "check/escape.h"
#include "check/verify.h"
#include "formats/text/text.h"
#include "support/graph_generator.h"
#include "tensor/convert.h"

namespace finity {
namespace {

// ---- random networks -----------------------------------------------------------------------------

// An image network in the text form, layer by layer; sizes are followed so that every layer fits.
class Network {
 public:
  Network(Rng& rng, std::string type) : rng_(rng), type_(std::move(type)) {}

  std::string text(int layers) {
    channels_ = pick(1, 4);
    height_ = pick(3, 6);
    width_ = pick(3, 6);
    const std::string shape = numbers({pick(1, 2), channels_, height_, width_});
    for (int i = 0; i < layers; ++i) add_layer();
    if (pick(0, 1) == 0) add_head();
    return "model {ir_version = 10}\nopset 18\ngraph g (x: " + type_ + "[" + shape + "]) -> (" + at_ + ": " + type_ +
           "[...]) {\n" + body_ + "}\n";
  }

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(most - least + 1)));
  }

  static std::string numbers(const std::vector<std::int64_t>& values) {
    std::string text;
    for (const std::int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return text;
  }

  std::string fresh(const std::string& prefix) { return prefix + std::to_string(++count_); }

  // A constant of random numbers; some are zero, some alike.
  std::string weights(const std::vector<std::int64_t>& shape, double scale, double least = -kInf) {
    const std::string name = fresh("w");
    std::ostringstream text;
    const bool alike = pick(0, 4) == 0;
    const double common = rng_.normal() * scale;
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      double value = alike ? common : rng_.normal() * scale;
      if (pick(0, 9) == 0) value = 0;
      text << (i == 0 ? "" : ", ") << std::max(value, least);
    }
    body_ += "  const " + name + ": " + type_ + "[" + numbers(shape) + "] = {" + text.str() + "}\n";
    return name;
  }

  void set(const std::string& call) {
    const std::string name = fresh("v");
    body_ += "  " + name + " = " + call + "\n";
    at_ = name;
  }

  void add_conv() {
    const std::int64_t groups = pick(0, 2) == 0 ? channels_ : 1, out = groups * pick(1, groups > 1 ? 2 : 4);
    const std::int64_t kernel = std::min<std::int64_t>(pick(1, 3), std::min(height_, width_));
    const std::int64_t stride = pick(1, 2), pad = kernel == 3 ? pick(0, 1) : 0;
    const std::string w = weights({out, channels_ / groups, kernel, kernel}, 0.5);
    const std::string b = pick(0, 1) == 0 ? ", " + weights({out}, 1) : "";
    set("Conv(" + at_ + ", " + w + b + ") {group = " + std::to_string(groups) + ", strides = [" +
        numbers({stride, stride}) + "], pads = [" + numbers({pad, pad, pad, pad}) + "]}");
    channels_ = out;
    height_ = (height_ + 2 * pad - kernel) / stride + 1;
    width_ = (width_ + 2 * pad - kernel) / stride + 1;
  }

  void add_transposed() {
    if (height_ > 6) return;
    const std::int64_t out = pick(1, 3), kernel = pick(1, 3), stride = pick(1, 2);
    const std::string w = weights({channels_, out, kernel, kernel}, 0.5);
    set("ConvTranspose(" + at_ + ", " + w + ", " + weights({out}, 1) + ") {strides = [" + numbers({stride, stride}) +
        "]}");
    channels_ = out;
    height_ = (height_ - 1) * stride + kernel;
    width_ = (width_ - 1) * stride + kernel;
  }

  void add_pool() {
    const std::int64_t kernel = std::min<std::int64_t>(2, std::min(height_, width_)), stride = pick(1, 2);
    const std::int64_t pad = kernel == 2 ? pick(0, 1) : 0;
    const std::string include = pick(0, 1) == 0 ? ", count_include_pad = 1" : "";
    const std::string window = " {kernel_shape = [" + numbers({kernel, kernel}) + "], strides = [" +
                               numbers({stride, stride}) + "], pads = [" + numbers({pad, pad, pad, pad}) + "]";
    if (pick(0, 1) == 0) set("MaxPool(" + at_ + ")" + window + "}");
    else set("AveragePool(" + at_ + ")" + window + include + "}");
    height_ = (height_ + 2 * pad - kernel) / stride + 1;
    width_ = (width_ + 2 * pad - kernel) / stride + 1;
  }

  void add_resize() {
    if (height_ > 6) return;
    const std::string scales = fresh("w");
    body_ += "  const " + scales + ": float32[4] = {1, 1, 2, 2}\n";
    const bool linear = pick(0, 1) == 0;
    set("Resize(" + at_ + ", _, " + scales + ") {mode = \"" + (linear ? "linear" : "nearest") + "\"}");
    height_ *= 2;
    width_ *= 2;
  }

  void add_channels() {
    if (pick(0, 1) == 0) return set("Mul(" + at_ + ", " + weights({channels_, 1, 1}, 1.5) + ")");
    const std::string parameters =
        weights({channels_}, 1) + ", " + weights({channels_}, 1) + ", " + weights({channels_}, 1);
    set("BatchNormalization(" + at_ + ", " + parameters + ", " + weights({channels_}, 1, 0.01) + ")");
  }

  void add_join() {
    const std::string other = at_;
    set("Relu(" + at_ + ")");
    if (pick(0, 1) == 0) return set("Add(" + at_ + ", " + other + ")");
    set("Concat(" + at_ + ", " + other + ") {axis = 1}");
    channels_ *= 2;
  }

  void add_function() {
    const char* functions[] = {"Relu", "LeakyRelu", "Tanh", "HardSwish", "Mish", "Neg", "Abs", "Elu", "Selu", "Sin"};
    set(std::string(functions[pick(0, 9)]) + "(" + at_ + ")");
  }

  void add_layer() {
    switch (pick(0, 9)) {
      case 0:
      case 1:
      case 2: return add_conv();
      case 3: return add_transposed();
      case 4: return add_pool();
      case 5: return add_resize();
      case 6: return add_channels();
      case 7: return add_join();
      default: return add_function();
    }
  }

  void add_head() {
    if (pick(0, 1) == 0) {
      set("GlobalAveragePool(" + at_ + ")");
      height_ = width_ = 1;
    }
    set("Flatten(" + at_ + ")");
    const std::int64_t inputs = channels_ * height_ * width_;
    if (pick(0, 1) == 0) return set("MatMul(" + at_ + ", " + weights({inputs, 3}, 0.5) + ")");
    set("Gemm(" + at_ + ", " + weights({3, inputs}, 0.5) + ", " + weights({3}, 1) +
        ") {transB = 1, alpha = 0.5, beta = 2.0}");
  }

  Rng& rng_;
  std::string type_, body_ = {}, at_ = "x";
  int count_ = 0;
  std::int64_t channels_ = 1, height_ = 1, width_ = 1;
};

// ---- inputs that make results large ----------------------------------------------------------------

double largest_output(const Graph& graph, const Tensor& x, std::size_t element) {
  const std::vector<double> values = elements<double>(*run_reference(graph, {{"x", x}})[0].tensor());
  return values.empty() ? 0 : values[element % values.size()];
}

// Corners, and longest inputs, in the direction in which one element of the output grows.
std::vector<Tensor> turned_inputs(const Graph& graph, const Tensor& start, double most, std::size_t element) {
  std::vector<double> at = elements<double>(start), slope(at.size());
  const double base = largest_output(graph, start, element);
  for (std::size_t i = 0; i < at.size(); ++i) {
    std::vector<double> moved = at;
    moved[i] = at[i] > 0 ? at[i] - most / 4 : at[i] + most / 4;
    const double there = largest_output(graph, from_elements<double>(start.dtype(), start.dims(), moved), element);
    slope[i] = (there - base) / (moved[i] - at[i]);
  }
  double steepest = 0;
  for (const double one : slope) steepest = std::max(steepest, std::abs(one));
  std::vector<Tensor> result;
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> corner(at.size()), along(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      corner[i] = sign * (slope[i] < 0 ? -most : most);
      along[i] = steepest > 0 && std::isfinite(steepest) ? sign * most * slope[i] / steepest : 0;
    }
    result.push_back(from_elements<double>(start.dtype(), start.dims(), corner));
    result.push_back(from_elements<double>(start.dtype(), start.dims(), along));
  }
  return result;
}

struct Trial {
  const char* type;
  double most;
};

void look_at(std::uint64_t seed, const Trial& trial, VerifyReport& report, std::size_t& claims) {
  Rng rng(seed);
  const std::string text = Network(rng, trial.type).text(2 + static_cast<int>(rng.below(7)));
  const Graph graph = parse_graph(text, "seed " + std::to_string(seed));
  const Types types = infer_types(graph);
  Contract contract;
  add_range(contract, "x:[" + std::to_string(-trial.most) + "," + std::to_string(trial.most) + "]");
  const Premises given = premises(graph, types, contract, 64);
  const Analysis analysis = analyze(graph, types, given, {.ranges = {.lengths = Lengths::always}});
  for (const AbsTensor& range : analysis.ranges) {
    if (find_rows(range.relations, Of::norm) != nullptr) ++claims;
  }
  try {
    Drawn drawn;
    for (int number = 0; number < 6; ++number) {
      drawn = draw_inside(graph, types, given, rng, number);
      verify_run(graph, analysis, drawn, 0, report);
    }
    for (std::size_t element : {rng.below(100), rng.below(100)}) {
      const Tensor start = *drawn.inputs.at("x").tensor();
      for (Tensor& x : turned_inputs(graph, start, trial.most, element)) {
        drawn.inputs["x"] = std::move(x);
        verify_run(graph, analysis, drawn, 0, report);
      }
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << text;
  }
}

TEST(LengthTrials, NoRowIsLongerThanClaimed) {
  const Trial trials[] = {{"float32", 1},    {"float32", 1e4}, {"float16", 1},
                          {"float16", 1e-3}, {"bfloat16", 8},  {"float64", 1}};
  std::uint64_t count = 60;
  if (const char* asked = std::getenv("FINITY_GRAPHS"); asked != nullptr) std::istringstream(asked) >> count >> count;
  VerifyReport report;
  std::size_t claims = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    for (const Trial& trial : trials) look_at(seed, trial, report, claims);
  }
  std::cout << claims << " rows, " << report.tensors << " tensors, " << report.skipped << " skipped, " << report.failed
            << " failed: " << report.first_failure << "\n";
  EXPECT_GT(claims, 2 * count);
  EXPECT_EQ(report.failed, 0);
}

TEST(LengthTrials, HoldInRandomGraphs) {
  VerifyReport report;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomModel model = random_model(seed);
    const Graph graph = parse_graph(model.text, "seed " + std::to_string(seed));
    const Types types = infer_types(graph);
    const Premises given = premises(graph, types, model.contract, 64);
    const Analysis analysis = analyze(graph, types, given, {.ranges = {.lengths = Lengths::always}});
    Rng rng(seed);
    try {
      for (int number = 0; number < 6; ++number) {
        verify_run(graph, analysis, draw_inside(graph, types, given, rng, number), 0, report);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what() << "\n" << model.text;
    }
  }
}

// ---- the largest singular value ------------------------------------------------------------------

// What power iteration reaches: never more than the truth.
double stretch_reached(const std::vector<double>& matrix, std::size_t rows, std::size_t columns) {
  std::vector<double> x(columns, 1.0);
  for (std::size_t j = 0; j < columns; ++j) x[j] += 0.01 * static_cast<double>(j % 7);
  double norm = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> y(rows), z(columns);
    double square = 0, length = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) y[i] += matrix[i * columns + j] * x[j];
      square += y[i] * y[i];
    }
    for (const double one : x) length += one * one;
    norm = std::sqrt(square / length);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) z[j] += matrix[i * columns + j] * y[i];
    }
    double size = 0;
    for (const double one : z) size = std::max(size, std::abs(one));
    for (std::size_t j = 0; j < columns && size > 0; ++j) x[j] = z[j] / size;
  }
  return norm;
}

TEST(SpectralBound, LiesJustAboveTheLargestSingularValue) {
  Rng rng(3);
  const std::size_t shapes[][2] = {{1, 1}, {1, 9}, {9, 1}, {3, 3}, {5, 40}, {40, 5}, {64, 64}, {33, 100}, {2, 3}};
  for (const double scale : {1e-30, 1.0, 1e30}) {
    for (const auto& shape : shapes) {
      std::vector<double> matrix(shape[0] * shape[1]);
      for (double& x : matrix) x = rng.normal() * scale;
      const double reached = stretch_reached(matrix, shape[0], shape[1]);
      const double bound = spectral_bound(matrix, shape[0], shape[1]);
      EXPECT_GE(bound, reached * (1 - 1e-12)) << shape[0] << " x " << shape[1];
      EXPECT_LE(bound, reached * 1.25) << shape[0] << " x " << shape[1];
    }
  }
  const std::vector<double> zeros(12), ones(12, 1.0);
  EXPECT_LE(spectral_bound(zeros, 3, 4), 1e-100);
  EXPECT_NEAR(spectral_bound(ones, 3, 4), std::sqrt(12), 1e-6);
  const std::vector<double> broken = {1, std::nan(""), 2, 3};
  EXPECT_FALSE(spectral_bound(broken, 2, 2) < kInf);
}

// A matrix whose largest singular value is known.
struct Known {
  std::size_t rows = 0, columns = 0;
  std::vector<double> matrix = {};
  double largest = 0;
};

// Reflections leave lengths as they are: a diagonal between some of them keeps its singular values.
Known reflected(Rng& rng, std::size_t rows, std::size_t columns, const std::vector<double>& diagonal) {
  Known result{.rows = rows, .columns = columns, .matrix = std::vector<double>(rows * columns)};
  for (std::size_t i = 0; i < std::min(rows, columns); ++i) {
    result.matrix[i * columns + i] = diagonal[i % diagonal.size()];
    result.largest = std::max(result.largest, std::abs(diagonal[i % diagonal.size()]));
  }
  const auto reflect = [&](std::size_t count, std::size_t step, std::size_t others, std::size_t other_step) {
    std::vector<double> normal(count);
    double squares = 0;
    for (double& x : normal) x = rng.normal(), squares += x * x;
    for (std::size_t j = 0; j < others; ++j) {
      double dot = 0;
      for (std::size_t i = 0; i < count; ++i) dot += normal[i] * result.matrix[i * step + j * other_step];
      for (std::size_t i = 0; i < count; ++i) result.matrix[i * step + j * other_step] -= 2 * dot / squares * normal[i];
    }
  };
  for (int round = 0; round < 2; ++round) {
    reflect(rows, columns, columns, 1);
    reflect(columns, 1, rows, columns);
  }
  return result;
}

TEST(SpectralBound, HoldsWhereTheLargestSingularValueIsKnown) {
  Rng rng(11);
  const std::vector<std::vector<double>> diagonals = {
      {1}, {1, 0.999}, {1, 0.5, 0.25, 1e-9}, {1, 1e-3}, {3, 1, 1, 1, 1, 1, 1}, {1e-20, 1e-12}, {0, 0, 7}};
  const std::size_t shapes[][2] = {{16, 16}, {17, 33}, {150, 20}, {64, 700}, {300, 260}};
  for (const std::vector<double>& diagonal : diagonals) {
    for (const auto& shape : shapes) {
      Known known = reflected(rng, shape[0], shape[1], diagonal);
      const double room = std::pow(static_cast<double>(std::min(shape[0], shape[1])), 1.0 / 32) * 1.02;
      const double bound = spectral_bound(known.matrix, known.rows, known.columns);
      EXPECT_GE(bound, known.largest * (1 - 1e-12)) << shape[0] << " x " << shape[1];
      EXPECT_LE(bound, known.largest * room) << shape[0] << " x " << shape[1];
    }
  }
}

TEST(SpectralBound, OfFloatsHasTheColumnsFactors) {
  Rng rng(12);
  for (int round = 0; round < 30; ++round) {
    const std::size_t rows = 1 + rng.below(40), taps = 1 + rng.below(9), columns = taps * (1 + rng.below(20));
    const double scale = std::exp(rng.normal() * 10);
    std::vector<double> factors(taps), plain(rows * columns);
    std::vector<float> floats(plain.size());
    for (double& factor : factors) factor = rng.below(5) == 0 ? 0 : std::exp(rng.normal() * 3);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      floats[i] = static_cast<float>(rng.normal() * scale);
      plain[i] = static_cast<double>(floats[i]) * factors[i % columns % taps];
    }
    const double bound = spectral_bound(floats, rows, columns, factors, euclidean_size(plain));
    const double reached = stretch_reached(plain, rows, columns);
    EXPECT_GE(bound, reached * (1 - 1e-12));
    EXPECT_LE(bound, reached * 1.25);
  }
}

// Too large for powers, and too large for anything: signs s_i t_j have one singular value, the root of their number.
TEST(SpectralBound, OfLargeMatricesIsStillOne) {
  Rng rng(13);
  const std::size_t shapes[][2] = {{1100, 1100}, {1500, 1400}};
  for (const auto& shape : shapes) {
    std::vector<double> left(shape[0]), right(shape[1]), matrix;
    for (double& sign : left) sign = rng.below(2) == 0 ? -1 : 1;
    for (double& sign : right) sign = rng.below(2) == 0 ? -1 : 1;
    for (const double a : left) {
      for (const double b : right) matrix.push_back(a * b);
    }
    const double truth = std::sqrt(static_cast<double>(matrix.size()));
    EXPECT_GE(spectral_bound(matrix, shape[0], shape[1]), truth * (1 - 1e-12));
    EXPECT_LE(spectral_bound(matrix, shape[0], shape[1]), truth * 1.001);
    // Of as many numbers along a diagonal, each is one.
    std::vector<double> diagonal(matrix.size());
    for (std::size_t i = 0; i < shape[1]; ++i) diagonal[i * shape[1] + i] = left[i];
    EXPECT_GE(spectral_bound(diagonal, shape[0], shape[1]), 1 - 1e-12);
    EXPECT_LE(spectral_bound(diagonal, shape[0], shape[1]), 1.05);
  }
}

// ---- deep networks ---------------------------------------------------------------------------------

// Convolutions of 16 channels with random kernels that neither grow nor vanish, with or without what is between them.
std::string deep_network(int layers, double scale) {
  Rng rng(7);
  std::ostringstream text;
  text << "model {ir_version = 10}\nopset 17\ngraph g (x: float32[N, 16, 8, 8]) -> (v" << layers
       << ": float32[...]) {\n  v0 = Identity(x)\n";
  for (int layer = 1; layer <= layers; ++layer) {
    text << "  const w" << layer << ": float32[16, 16, 3, 3] = {";
    for (int i = 0; i < 16 * 16 * 9; ++i) text << (i == 0 ? "" : ", ") << rng.normal() * scale;
    text << "}\n  c" << layer << " = Conv(v" << layer - 1 << ", w" << layer << ") {pads = [1, 1, 1, 1]}\n  v" << layer
         << " = Relu(c" << layer << ")\n";
  }
  text << "}\n";
  return text.str();
}

std::size_t alarms(const std::string& text, Lengths lengths) {
  const Graph graph = parse_graph(text, "deep");
  const Types types = infer_types(graph);
  Contract contract;
  add_range(contract, "x:[0,1]");
  const Analysis analysis =
      analyze(graph, types, premises(graph, types, contract, 64), {.ranges = {.lengths = lengths}});
  std::size_t count = 0;
  for (const Finding& finding : analysis.findings) count += finding.verdict == Verdict::proved ? 0 : 1;
  return count;
}

TEST(DeepNetworks, AreProvedByLengths) {
  const std::string text = deep_network(60, 0.1);
  EXPECT_EQ(alarms(text, Lengths::of_large), 0U);
  EXPECT_GE(alarms(text, Lengths::never), 10U);
}

TEST(DeepNetworks, ThatOverflowAreNotProved) {
  const std::string text = deep_network(60, 1.5);
  const Graph graph = parse_graph(text, "deep");
  const Tensor x = from_elements<double>(DType::float32, {1, 16, 8, 8}, std::vector<double>(1024, 1.0));
  EXPECT_TRUE(has_non_finite(run_reference(graph, {{"x", x}})[0]));
  EXPECT_GT(alarms(text, Lengths::of_large), 0U);
}

}  // namespace
}  // namespace finity
