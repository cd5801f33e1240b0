// Pools, resampling, regions, grids and signals: what eval gives lies in the ranges.
#include <gtest/gtest.h>

#include <functional>

#include "range_trials.h"

namespace finity {
namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t small(Rng& rng, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
}

// Nodes that inference refuses are drawn again.
void expect_inside(const std::function<TrialNode(Rng&)>& make, std::uint64_t seed, int trials = 800) {
  Rng rng(seed);
  TrialCounts counts;
  for (int i = 0; i < trials; ++i) {
    std::optional<Trial> trial;
    try {
      trial.emplace(make(rng), random_settings(rng));
    } catch (const Error&) {
      continue;
    }
    ASSERT_EQ(try_node(*trial, rng, 10, counts), "") << "trial " << i;
  }
  EXPECT_GT(counts.runs, trials * 2);
  EXPECT_GT(counts.unexcused, trials / 8);
}

// ---- pools -------------------------------------------------------------------

TrialNode pool(const std::string& op, Rng& rng) {
  const DType dtype = random_float(rng);
  const Dims dims = random_dims(rng, 3, 4, 6);
  const std::size_t rank = dims.size() - 2;
  TrialNode node{.op = op, .version = 22};
  Ints kernel, strides, dilations, pads(2 * rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    kernel.push_back(small(rng, 1, 3));
    strides.push_back(small(rng, 1, 3));
    dilations.push_back(small(rng, 1, 2));
  }
  if (rng.below(2) == 0) {
    for (std::int64_t& pad : pads) pad = small(rng, 0, 2);
  }
  node.attrs = {{"kernel_shape", kernel}, {"strides", strides}};
  if (rng.below(3) == 0) node.attrs.emplace_back("dilations", dilations);
  const char* modes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  if (rng.below(3) == 0) node.attrs.emplace_back("auto_pad", std::string(modes[rng.below(3)]));
  else node.attrs.emplace_back("pads", pads);
  node.attrs.emplace_back("ceil_mode", small(rng, 0, 1));
  if (op == "AveragePool") node.attrs.emplace_back("count_include_pad", small(rng, 0, 1));
  if (op == "LpPool") node.attrs.emplace_back("p", small(rng, 1, 4));
  if (op == "MaxPool") node.outputs = 2;
  node.inputs = {random_input(dtype, dims, rng)};
  return node;
}

class PoolTrials : public testing::TestWithParam<const char*> {};

TEST_P(PoolTrials, EvalLiesInside) {
  expect_inside([](Rng& rng) { return pool(GetParam(), rng); }, 1, 1500);
}

INSTANTIATE_TEST_SUITE_P(Ops, PoolTrials, testing::Values("MaxPool", "AveragePool", "LpPool"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PoolTrials, GlobalPools) {
  for (const char* op : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}) {
    expect_inside(
        [&](Rng& rng) {
          TrialNode node{.op = op, .version = 2};
          if (node.op == "GlobalLpPool") node.attrs = {{"p", small(rng, 1, 3)}};
          node.inputs = {random_input(random_float(rng), random_dims(rng, 2, 4, 5), rng)};
          return node;
        },
        2);
  }
}

TEST(PoolTrials, MaxUnpool) {
  expect_inside(
      [](Rng& rng) {
        const Dims dims = {1, small(rng, 1, 2), small(rng, 1, 3), small(rng, 1, 3)};
        TrialNode node{.op = "MaxUnpool", .version = 11};
        node.attrs = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
        const double last = static_cast<double>(element_count(dims)) * 4 - 1;
        node.inputs = {random_input(random_float(rng), dims, rng),
                       ranged(uniform(DType::int64, dims, {.lo = 0, .hi = last, .integer = true}))};
        return node;
      },
      3, 200);
}

// ---- resampling --------------------------------------------------------------

TrialNode resize(Rng& rng) {
  const DType dtype = rng.below(8) == 0 ? DType::uint8 : random_float(rng);
  const Dims dims = random_dims(rng, 2, 4, 5);
  const char* modes[] = {"nearest", "linear", "cubic"};
  const char* coordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                               "align_corners", "asymmetric",           "tf_crop_and_resize"};
  TrialNode node{.op = "Resize", .version = 19};
  const std::string where = coordinates[rng.below(6)];
  node.attrs = {{"mode", std::string(modes[rng.below(3)])},
                {"coordinate_transformation_mode", where},
                {"exclude_outside", small(rng, 0, 1)},
                {"antialias", static_cast<std::int64_t>(rng.below(4) == 0 ? 1 : 0)},
                {"cubic_coeff_a", rng.below(2) == 0 ? -0.75F : static_cast<float>(rng.uniform(-2, 2))},
                {"extrapolation_value", static_cast<float>(rng.uniform(-10, 10))}};
  std::vector<float> scales;
  Ints sizes;
  for (const std::int64_t size : dims) {
    scales.push_back(rng.below(3) == 0 ? 1.0F : static_cast<float>(rng.uniform(0.4, 2.5)));
    sizes.push_back(rng.below(3) == 0 ? size : small(rng, 1, 8));
  }
  node.inputs = {random_input(dtype, dims, rng), std::nullopt};
  if (dtype == DType::uint8) {
    node.inputs[0] = ranged(random_tensor(dtype, dims, {.largest = 255, .nonnegative = true}, rng));
  }
  if (where == "tf_crop_and_resize") {
    std::vector<float> roi(2 * dims.size());
    for (float& edge : roi) edge = static_cast<float>(rng.uniform(-0.5, 1.5));
    node.inputs[1] = constant(from_elements<float>(DType::float32, {static_cast<std::int64_t>(roi.size())}, roi));
  }
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (rng.below(2) == 0) {
    node.inputs.push_back(constant(from_elements<float>(DType::float32, {rank}, scales)));
  } else {
    node.inputs.emplace_back();
    node.inputs.push_back(constant(Tensor::vector_of(sizes)));
  }
  return node;
}

TEST(ResizeTrials, EvalLiesInside) { expect_inside(resize, 4, 3000); }

TEST(ResizeTrials, Upsample) {
  expect_inside(
      [](Rng& rng) {
        const Dims dims = random_dims(rng, 4, 4, 4);
        TrialNode node{.op = "Upsample", .version = 9};
        node.attrs = {{"mode", std::string(rng.below(2) == 0 ? "nearest" : "linear")}};
        const std::vector<float> scales = {1, 1, static_cast<float>(rng.uniform(1, 3)), 2};
        node.inputs = {random_input(random_float(rng), dims, rng),
                       constant(from_elements<float>(DType::float32, {4}, scales))};
        return node;
      },
      5, 300);
}

TEST(GridTrials, GridSample) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const bool volume = rng.below(4) == 0;
        Dims dims = random_dims(rng, volume ? 5 : 4, volume ? 5 : 4, 4);
        Dims grid = dims;
        grid[1] = small(rng, 1, 3);
        grid.erase(grid.begin() + 2);
        grid.push_back(volume ? 3 : 2);
        const char* modes[] = {"linear", "nearest", "cubic"};
        const char* paddings[] = {"zeros", "border", "reflection"};
        TrialNode node{.op = "GridSample", .version = 20};
        node.attrs = {{"mode", std::string(modes[rng.below(volume ? 2 : 3)])},
                      {"padding_mode", std::string(paddings[rng.below(3)])},
                      {"align_corners", small(rng, 0, 1)}};
        RangeStyle style{.infinities = rng.below(6) == 0, .largest = rng.below(6) == 0 ? 0.0 : 3.0};
        node.inputs = {random_input(dtype, dims, rng), ranged(random_tensor(DType::float32, grid, style, rng))};
        return node;
      },
      6, 1500);
}

TEST(GridTrials, AffineGrid) {
  expect_inside(
      [](Rng& rng) {
        const bool volume = rng.below(3) == 0;
        Ints size = {small(rng, 1, 2), 1, small(rng, 1, 4), small(rng, 1, 4)};
        if (volume) size.push_back(2);
        const std::int64_t axes = volume ? 3 : 2;
        TrialNode node{.op = "AffineGrid", .version = 20};
        node.attrs = {{"align_corners", small(rng, 0, 1)}};
        node.inputs = {random_input(random_float(rng), {size[0], axes, axes + 1}, rng),
                       constant(Tensor::vector_of(size))};
        return node;
      },
      7);
}

// ---- regions -----------------------------------------------------------------

TEST(RoiTrials, RoiAlign) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 4, 4, 4);
        const std::int64_t regions = small(rng, 1, 3);
        TrialNode node{.op = "RoiAlign", .version = rng.below(2) == 0 ? 10 : 16};
        node.attrs = {{"mode", std::string(rng.below(2) == 0 ? "avg" : "max")},
                      {"output_height", small(rng, 1, 3)},
                      {"output_width", small(rng, 1, 3)},
                      {"sampling_ratio", small(rng, 0, 2)}};
        node.inputs = {random_input(dtype, dims, rng), ranged(random_tensor(dtype, {regions, 4}, {.largest = 9}, rng)),
                       ranged(uniform(DType::int64, {regions},
                                      {.lo = 0, .hi = static_cast<double>(dims[0] - 1), .integer = true}))};
        return node;
      },
      8);
}

TEST(RoiTrials, MaxRoiPool) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 4, 4, 4);
        TrialNode node{.op = "MaxRoiPool", .version = 1};
        node.attrs = {{"pooled_shape", Ints{small(rng, 1, 3), small(rng, 1, 3)}}};
        node.inputs = {random_input(dtype, dims, rng),
                       ranged(random_tensor(dtype, {2, 5}, {.largest = 1, .nonnegative = true}, rng))};
        return node;
      },
      9);
}

TEST(RoiTrials, NonMaxSuppression) {
  expect_inside(
      [](Rng& rng) {
        const std::int64_t batch = small(rng, 1, 2), classes = small(rng, 1, 3), boxes = small(rng, 1, 5);
        TrialNode node{.op = "NonMaxSuppression", .version = 11};
        node.inputs = {ranged(random_tensor(DType::float32, {batch, boxes, 4}, {.largest = 5}, rng)),
                       ranged(random_tensor(DType::float32, {batch, classes, boxes}, {.largest = 1}, rng)),
                       constant(Tensor::scalar(small(rng, 0, 3)))};
        return node;
      },
      10, 300);
}

// ---- signals -----------------------------------------------------------------

TEST(SignalTrials, Dft) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        Dims dims = random_dims(rng, 3, 4, 6);
        const bool inverse = rng.below(2) == 0, onesided = rng.below(2) == 0;
        dims.back() = onesided && !inverse ? 1 : small(rng, 1, 2);
        const bool named = rng.below(2) == 0;
        TrialNode node{.op = "DFT", .version = named ? 20 : 17};
        node.attrs = {{"inverse", static_cast<std::int64_t>(inverse)},
                      {"onesided", static_cast<std::int64_t>(onesided)}};
        const std::int64_t axis = small(rng, 0, static_cast<std::int64_t>(dims.size()) - 2);
        if (!named) node.attrs.emplace_back("axis", axis);
        node.inputs = {random_input(dtype, dims, rng)};
        if (rng.below(2) == 0) node.inputs.push_back(constant(Tensor::scalar(small(rng, 1, 8))));
        else node.inputs.emplace_back();
        if (named) node.inputs.push_back(constant(Tensor::scalar(axis)));
        return node;
      },
      11, 1500);
}

TEST(SignalTrials, Stft) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const std::int64_t length = small(rng, 2, 12), frame = small(rng, 1, 4);
        TrialNode node{.op = "STFT", .version = 17};
        const bool onesided = rng.below(2) == 0;
        node.attrs = {{"onesided", static_cast<std::int64_t>(onesided)}};
        node.inputs = {random_input(dtype, {2, length, onesided ? 1 : small(rng, 1, 2)}, rng),
                       constant(Tensor::scalar(small(rng, 1, 3)))};
        if (rng.below(2) == 0) node.inputs.push_back(ranged(random_tensor(dtype, {frame}, {.largest = 2}, rng)));
        else node.inputs.emplace_back();
        node.inputs.push_back(constant(Tensor::scalar(frame)));
        return node;
      },
      12);
}

TEST(SignalTrials, Windows) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    expect_inside(
        [&](Rng& rng) {
          const std::int64_t types[] = {1, 10, 11, 16, 7};
          TrialNode node{.op = op, .version = 17};
          node.attrs = {{"periodic", small(rng, 0, 1)}, {"output_datatype", types[rng.below(5)]}};
          const double least = rng.below(2) == 0 ? 1 : 2;
          node.inputs = {ranged(uniform(DType::int64, {}, {.lo = least, .hi = 40, .integer = true}))};
          return node;
        },
        13, 200);
  }
}

}  // namespace
}  // namespace finity
