// Ranges of convolutions: sound for random windows, groups and grids; the ends are
// reached where nothing is padded; what padding takes away is reckoned with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/range_probe.h"
#include "tensor/convert.h"

namespace finity {
namespace {

struct ConvCase {
  Dims x, w;
  std::int64_t groups = 1;
};

// Attributes that fit, and shapes that go with them.
ConvCase any_conv(Rng& rng, RangeProbe& probe, bool transposed) {
  ConvCase result;
  const std::size_t rank = 1 + rng.below(2);
  result.groups = rng.below(3) == 0 ? 1 + static_cast<std::int64_t>(rng.below(3)) : 1;
  const std::int64_t in = small(rng, 3), out = small(rng, 3);
  result.x = {small(rng, 3), in * result.groups};
  result.w = transposed ? Dims{in * result.groups, out} : Dims{out * result.groups, in};
  std::vector<std::int64_t> strides, dilations, pads;
  for (std::size_t i = 0; i < rank; ++i) {
    result.w.push_back(small(rng, 3));
    strides.push_back(small(rng, 3));
    dilations.push_back(small(rng, 2));
    result.x.push_back((transposed ? 0 : (result.w.back() - 1) * dilations.back()) + small(rng, 5));
  }
  for (std::size_t i = 0; i < 2 * rank; ++i) pads.push_back(static_cast<std::int64_t>(rng.below(2)));
  probe.attrs.set("strides", strides);
  probe.attrs.set("dilations", dilations);
  probe.attrs.set("group", result.groups);
  constexpr const char* kModes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  const std::uint64_t mode = rng.below(6);
  if (mode < 3) probe.attrs.set("auto_pad", std::string(kModes[mode]));
  else if (mode < 5) probe.attrs.set("pads", pads);
  if (rng.below(2) == 0)
    probe.attrs.set("kernel_shape", std::vector<std::int64_t>(result.w.begin() + 2, result.w.end()));
  return result;
}

void fuzz(const std::string& op, std::uint64_t seed, bool transposed, double lo, double hi) {
  Rng rng = seeded(seed);
  int refused = 0;
  for (int round = 0; round < 900; ++round) {
    const DType dtype = any_float(rng);
    RangeProbe probe{.op = op, .settings = any_settings(rng)};
    const ConvCase shapes = any_conv(rng, probe, transposed);
    probe.operands = {any_operand(rng, dtype, shapes.x, lo, hi, false),
                      any_operand(rng, dtype, shapes.w, -2, 2, rng.below(3) != 0)};
    const std::int64_t channels = transposed ? shapes.w[1] * shapes.groups : shapes.w[0];
    if (rng.below(2) == 0) probe.operands.push_back(any_operand(rng, dtype, {channels}, -9, 9, rng.below(2) == 0));
    try {
      if (rng.below(5) == 0) add_specials(rng, probe);
      ASSERT_EQ(unsound(rng, probe, 6), "") << op << " round " << round;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 300);
}

TEST(RangeConv, Sound) { fuzz("Conv", 1, false, -4, 4); }
TEST(RangeConv, SoundAwayFromZero) { fuzz("Conv", 2, false, 2, 4); }
TEST(RangeConv, SoundAtOverflow) { fuzz("Conv", 3, false, -20000, 30000); }
TEST(RangeConvTranspose, Sound) { fuzz("ConvTranspose", 4, true, -4, 4); }
TEST(RangeConvTranspose, SoundAwayFromZero) { fuzz("ConvTranspose", 5, true, 2, 4); }

// x in [1, 2], 3x3 ones: 9..18 inside, at a padded corner 4.
TEST(RangeConv, PaddingTakesTermsAway) {
  const Tensor ones = from_elements<double>(DType::float32, {1, 1, 3, 3}, std::vector<double>(9, 1));
  RangeProbe probe{
      .op = "Conv",
      .operands = {abstract(uniform(DType::float32, {1, 1, 8, 8}, Range{.lo = 1, .hi = 2})), constant(ones)}};
  probe.run();
  EXPECT_NEAR(probe.ranges[0].hull().lo, 9, 1e-4);
  EXPECT_NEAR(probe.ranges[0].hull().hi, 18, 1e-4);
  probe.attrs.set("auto_pad", std::string("SAME_UPPER"));
  probe.run();
  EXPECT_LE(probe.ranges[0].hull().lo, 4);
  EXPECT_GE(probe.ranges[0].hull().lo, 0);
  EXPECT_NEAR(probe.ranges[0].hull().hi, 18, 1e-4);
}

// One channel at a time: blocks of the input's channels count for the groups that read them.
TEST(RangeConv, DepthwiseKeepsChannelsApart) {
  AbsTensor x = uniform(DType::float32, {1, 2, 4, 4}, Range{});
  x.cuts = {{}, {1}, {}, {}};
  x.cells = {Range{.lo = 0, .hi = 1}, Range{.lo = 100, .hi = 101}};
  const Tensor w = from_elements<double>(DType::float32, {2, 1, 1, 1}, std::vector<double>{2, 3});
  RangeProbe probe{.op = "Conv", .operands = {abstract(x), constant(w)}};
  probe.attrs.set("group", std::int64_t{2});
  probe.run();
  EXPECT_NEAR(range_at(probe.ranges[0], {1, 2, 4, 4}, 0).hi, 2, 1e-5);
  EXPECT_NEAR(range_at(probe.ranges[0], {1, 2, 4, 4}, 16).lo, 300, 1e-3);
}

// The influence of every input element on an output, found by running the convolution on unit images, gives the
// members that reach the ends.
TEST(RangeConv, EndsAreReached) {
  Rng rng = seeded(6);
  for (int round = 0; round < 60; ++round) {
    const Dims x_dims{1, 3, 4, 4}, w_dims{2, 3, 3, 3}, out_dims{1, 2, 2, 2};
    const AbsTensor x = random_abstract(rng, DType::float32, {1, 3, 4, 4}, -3, 5, 4);
    AbsTensor blocks = uniform(DType::float32, x_dims, Range{});
    blocks.cuts = {{}, {1, 2}, {}, {}};
    blocks.cells.clear();
    for (int i = 0; i < 3; ++i) {
      const double a = rng.uniform(-3, 5), b = rng.uniform(-3, 5);
      blocks.cells.push_back(Range{.lo = static_cast<float>(std::min(a, b)), .hi = static_cast<float>(std::max(a, b))});
    }
    RangeProbe probe{.op = "Conv",
                     .operands = {abstract(blocks), constant(random_tensor(rng, DType::float32, w_dims, -1, 1))}};
    probe.run();
    std::vector<double> best(48), least(48);
    const std::size_t output = rng.below(8);
    for (std::size_t i = 0; i < 48; ++i) {
      std::vector<double> unit(48, 0);
      unit[i] = 1;
      const Tensor image = from_elements<double>(DType::float32, x_dims, unit);
      const double influence = elements<double>(probe.evaluate({image, {}})[0])[output];
      const Range& cell = range_at(blocks, x_dims, static_cast<std::int64_t>(i));
      best[i] = influence > 0 ? cell.hi : cell.lo;
      least[i] = influence > 0 ? cell.lo : cell.hi;
    }
    const auto value = [&](const std::vector<double>& image) {
      return elements<double>(probe.evaluate({from_elements<double>(DType::float32, x_dims, image), {}})[0])[output];
    };
    const Range& cell = range_at(probe.ranges[0], out_dims, static_cast<std::int64_t>(output));
    EXPECT_NEAR(value(best), cell.hi, 0.01 * (cell.hi - cell.lo) + 1e-6);
    EXPECT_NEAR(value(least), cell.lo, 0.01 * (cell.hi - cell.lo) + 1e-6);
  }
}

// Stride 2 and a kernel of 2: every output has one tap only.
TEST(RangeConvTranspose, CountsTapsThatMeet) {
  const Tensor ones = from_elements<double>(DType::float32, {1, 1, 2, 2}, std::vector<double>(4, 1));
  RangeProbe probe{
      .op = "ConvTranspose",
      .operands = {abstract(uniform(DType::float32, {1, 1, 4, 4}, Range{.lo = 0, .hi = 1})), constant(ones)}};
  probe.run();
  EXPECT_NEAR(probe.ranges[0].hull().hi, 4, 1e-5);
  probe.attrs.set("strides", std::vector<std::int64_t>{2, 2});
  probe.run();
  EXPECT_NEAR(probe.ranges[0].hull().hi, 1, 1e-5);
}

TEST(RangeConv, HalfOverflow) {
  for (const double limit : {50.0, 150.0}) {
    const Tensor ones = from_elements<double>(DType::float16, {1, 64, 3, 3}, std::vector<double>(576, 1));
    RangeProbe probe{
        .op = "Conv",
        .operands = {abstract(uniform(DType::float16, {1, 64, 8, 8}, Range{.lo = 0, .hi = limit})), constant(ones)}};
    probe.run();
    EXPECT_EQ(probe.alarms("FN204"), limit > 100);
    const Tensor image = from_elements<double>(DType::float16, {1, 64, 8, 8}, std::vector<double>(64 * 64, limit));
    EXPECT_EQ(std::isinf(elements<double>(probe.evaluate({image, {}})[0])[0]), limit > 100);
  }
}

TEST(RangeCol2Im, Sound) {
  Rng rng = seeded(7);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t kernel = small(rng, 3), stride = small(rng, 3), size = kernel + small(rng, 5);
    const std::int64_t blocks = (size - kernel) / stride + 1;
    RangeProbe probe{.op = "Col2Im", .settings = any_settings(rng)};
    const Tensor image = Tensor::vector_of(std::vector<std::int64_t>{size});
    const Tensor block = Tensor::vector_of(std::vector<std::int64_t>{kernel});
    const DType dtype = rng.below(5) == 0 ? DType::int32 : any_float(rng);
    probe.operands = {any_operand(rng, dtype, {2, 3 * kernel, blocks}, -3, 3, false), constant(image), constant(block)};
    probe.attrs.set("strides", std::vector<std::int64_t>{stride});
    ASSERT_EQ(unsound(rng, probe, 6), "") << round;
  }
}

TEST(RangeCausalConv, Sound) {
  Rng rng = seeded(8);
  for (int round = 0; round < 400; ++round) {
    const DType dtype = rng.below(2) == 0 ? DType::float32 : DType::float16;
    const std::int64_t batch = small(rng, 2), channels = small(rng, 4), kernel = small(rng, 4), length = small(rng, 5);
    RangeProbe probe{.op = "CausalConvWithState", .version = 27, .outputs = 2, .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, {batch, channels, length}, -3, 3, false),
                      any_operand(rng, dtype, {channels, 1, kernel}, -2, 2, rng.below(2) == 0), omitted(), omitted()};
    if (rng.below(2) == 0) probe.operands[2] = any_operand(rng, dtype, {channels}, -2, 2, rng.below(2) == 0);
    if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, dtype, {batch, channels, kernel - 1}, -7, 7, false);
    if (rng.below(2) == 0) probe.attrs.set("activation", std::string("silu"));
    ASSERT_EQ(unsound(rng, probe, 6), "") << round;
  }
}

TEST(RangeDeformConv, Sound) {
  Rng rng = seeded(9);
  for (int round = 0; round < 300; ++round) {
    const DType dtype = any_float(rng);
    const std::int64_t kernel = small(rng, 2), size = kernel + small(rng, 3), out = size - kernel + 1;
    RangeProbe probe{.op = "DeformConv", .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, {1, 2, size, size}, -3, 3, false),
                      any_operand(rng, dtype, {3, 2, kernel, kernel}, -2, 2, rng.below(2) == 0),
                      any_operand(rng, dtype, {1, 2 * kernel * kernel, out, out}, -2, 2, false), omitted(), omitted()};
    if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, dtype, {3}, -2, 2, rng.below(2) == 0);
    if (rng.below(2) == 0) probe.operands[4] = any_operand(rng, dtype, {1, kernel * kernel, out, out}, -1, 2, false);
    ASSERT_EQ(unsound(rng, probe, 6), "") << round;
  }
}

}  // namespace
}  // namespace finity
