// Normalisations: what eval gives, in every stash type, lies in the ranges.
#include <gtest/gtest.h>

#include "range_trials.h"

namespace finity {
namespace {

float random_epsilon(Rng& rng) {
  const float choices[] = {1e-5F, 1e-3F, 1e-12F, 1e-8F, 0.0F, 1.0F, 1e-20F};
  return choices[rng.below(7)];
}

// Parameters are mostly constants, sometimes only ranges.
TrialInput random_parameter(DType dtype, const Dims& dims, Rng& rng, bool nonnegative = false) {
  const AbsTensor range = random_tensor(dtype, dims, {.largest = 4, .nonnegative = nonnegative}, rng);
  if (rng.below(3) != 0) return constant(random_elements(range, dims, rng));
  return ranged(range);
}

// Rows with a common offset are where rounding hurts.
TrialInput random_rows(DType dtype, const Dims& dims, Rng& rng) {
  if (rng.below(4) != 0) return random_input(dtype, dims, rng);
  const double base = rounded_within(dtype, rng.uniform(-2000, 2000));
  const double width = std::exp2(rng.uniform(-20, 4));
  const Range range{.lo = rounded_within(dtype, base - width), .hi = rounded_within(dtype, base + width)};
  return ranged(uniform(dtype, dims, range));
}

// Of so many trials one at least must promise something.
void expect_inside(const std::function<TrialNode(Rng&)>& make, std::uint64_t seed, int trials = 800, int of = 8) {
  Rng rng(seed);
  TrialCounts counts;
  for (int i = 0; i < trials; ++i) {
    const TrialNode node = make(rng);
    ASSERT_EQ(try_node(Trial(node, random_settings(rng)), rng, 10, counts), "") << "trial " << i;
  }
  EXPECT_GT(counts.runs, trials * 5);
  EXPECT_GT(counts.unexcused, trials / of);
}

TEST(NormTrials, LayerNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 1, 3, rng.below(10) == 0 ? 20 : 6);
        const auto axis = static_cast<std::int64_t>(rng.below(dims.size()));
        const std::int64_t stashes[] = {1, 1, 10, 11, 16};
        const DType scale = rng.below(4) == 0 ? random_float(rng) : dtype;
        const Dims inner(dims.begin() + axis, dims.end());
        TrialNode node{.op = "LayerNormalization", .version = 17, .outputs = 3};
        node.attrs = {{"axis", axis}, {"epsilon", random_epsilon(rng)}, {"stash_type", stashes[rng.below(5)]}};
        node.inputs = {random_rows(dtype, dims, rng), random_parameter(scale, inner, rng)};
        if (rng.below(2) == 0) node.inputs.push_back(random_parameter(scale, inner, rng));
        return node;
      },
      1, 1500);
}

TEST(NormTrials, RmsNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 1, 3, rng.below(10) == 0 ? 20 : 6);
        const bool simplified = rng.below(2) == 0;
        TrialNode node{.op = simplified ? "SimplifiedLayerNormalization" : "RMSNormalization",
                       .version = 23,
                       .outputs = simplified ? 2U : 1U};
        const std::int64_t stashes[] = {1, 1, 10, 11, 16};
        node.attrs = {{"epsilon", random_epsilon(rng)}, {"stash_type", stashes[rng.below(5)]}};
        node.inputs = {random_rows(dtype, dims, rng), random_parameter(dtype, {dims.back()}, rng)};
        return node;
      },
      2, 1500);
}

TEST(NormTrials, GroupNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const auto groups = static_cast<std::int64_t>(1 + rng.below(3));
        Dims dims = random_dims(rng, 3, 4, 3);
        dims[1] = groups * static_cast<std::int64_t>(1 + rng.below(3));
        const int version = rng.below(2) == 0 ? 18 : 21;
        const std::int64_t count = version == 18 ? groups : dims[1];
        TrialNode node{.op = "GroupNormalization", .version = version};
        node.attrs = {{"epsilon", random_epsilon(rng)}, {"num_groups", groups}};
        node.inputs = {random_rows(dtype, dims, rng), random_parameter(dtype, {count}, rng),
                       random_parameter(dtype, {count}, rng)};
        return node;
      },
      3);
}

TrialNode batch_norm(Rng& rng, bool training) {
  const DType dtype = random_float(rng);
  const Dims dims = random_dims(rng, training && rng.below(5) == 0 ? 1 : 2, 4, 4);
  const int versions[] = {1, 6, 7, 8, 9, 14, 15};
  const int version = versions[rng.below(7)];
  TrialNode node{.op = "BatchNormalization", .version = version};
  Dims channels = {dims.size() > 1 ? dims[1] : 1};
  node.attrs = {{"epsilon", random_epsilon(rng)}};
  if (version < 9 && rng.below(4) == 0) {
    node.attrs.emplace_back("spatial", std::int64_t{0});
    for (std::size_t i = 2; i < dims.size(); ++i) channels[0] *= dims[i];
  }
  if (training) {
    if (version >= 14) node.attrs.emplace_back("training_mode", std::int64_t{1});
    node.outputs = version >= 14 ? 3 : 5;
  } else if (version < 7) {
    node.attrs.emplace_back("is_test", std::int64_t{1});
  }
  const DType statistics = version >= 15 && rng.below(3) == 0 ? DType::float32 : dtype;
  node.inputs = {random_rows(dtype, dims, rng), random_parameter(statistics, channels, rng),
                 random_parameter(statistics, channels, rng), random_parameter(statistics, channels, rng),
                 random_parameter(statistics, channels, rng, rng.below(5) != 0)};
  return node;
}

TEST(NormTrials, BatchNormalization) {
  expect_inside([](Rng& rng) { return batch_norm(rng, false); }, 4, 1500);
}

TEST(NormTrials, BatchNormalizationInTraining) {
  expect_inside([](Rng& rng) { return batch_norm(rng, true); }, 5, 1000);
}

TEST(NormTrials, InstanceNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 2, 4, 4);
        TrialNode node{.op = "InstanceNormalization", .version = 6};
        node.attrs = {{"epsilon", random_epsilon(rng)}};
        node.inputs = {random_rows(dtype, dims, rng), random_parameter(dtype, {dims[1]}, rng),
                       random_parameter(dtype, {dims[1]}, rng)};
        return node;
      },
      6);
}

TEST(NormTrials, MeanVarianceNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 4, 4, 3);
        TrialNode node{.op = "MeanVarianceNormalization", .version = 13};
        if (rng.below(2) == 0) {
          node.attrs = {{"axes", std::vector<std::int64_t>{static_cast<std::int64_t>(rng.below(4))}}};
        }
        node.inputs = {random_rows(dtype, dims, rng)};
        return node;
      },
      7, 800, 16);
}

TEST(NormTrials, LpNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 1, 3, 5);
        TrialNode node{.op = "LpNormalization", .version = 1};
        node.attrs = {{"p", static_cast<std::int64_t>(1 + rng.below(2))},
                      {"axis", static_cast<std::int64_t>(rng.below(dims.size()))}};
        node.inputs = {random_rows(dtype, dims, rng)};
        return node;
      },
      8);
}

TEST(NormTrials, LocalResponseNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 2, 4, 4);
        TrialNode node{.op = "LRN", .version = 13};
        const float betas[] = {0.75F, 0.5F, 1.5F, 0.0F, 3.0F};
        node.attrs = {{"size", static_cast<std::int64_t>(1 + rng.below(6))},
                      {"beta", betas[rng.below(5)]},
                      {"alpha", static_cast<float>(rng.uniform(0, 1))},
                      {"bias", static_cast<float>(rng.uniform(0, 2))}};
        node.inputs = {random_rows(dtype, dims, rng)};
        return node;
      },
      9);
}

TEST(NormTrials, SkipLayerNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims dims = random_dims(rng, 2, 3, 5);
        const bool centred = rng.below(2) == 0;
        TrialNode node{.op = centred ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization",
                       .domain = "com.microsoft",
                       .version = 1,
                       .outputs = 4};
        node.attrs = {{"epsilon", random_epsilon(rng)}};
        const Dims skip = rng.below(4) == 0 ? Dims(dims.begin() + 1, dims.end()) : dims;
        node.inputs = {random_rows(dtype, dims, rng), random_rows(dtype, skip, rng),
                       random_parameter(dtype, {dims.back()}, rng)};
        if (centred) node.inputs.push_back(random_parameter(dtype, {dims.back()}, rng));
        if (rng.below(2) == 0) node.inputs.push_back(random_parameter(dtype, {dims.back()}, rng));
        return node;
      },
      10);
}

TEST(NormTrials, EmbedLayerNormalization) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const Dims ids = random_dims(rng, 2, 2, 4);
        const auto hidden = static_cast<std::int64_t>(1 + rng.below(5));
        const auto id_range = [&](std::int64_t rows) {
          return ranged(uniform(DType::int32, ids, {.lo = 0, .hi = static_cast<double>(rows - 1), .integer = true}));
        };
        TrialNode node{.op = "EmbedLayerNormalization", .domain = "com.microsoft", .version = 1, .outputs = 3};
        node.attrs = {{"epsilon", random_epsilon(rng)}};
        node.inputs = {id_range(5),
                       id_range(2),
                       random_parameter(dtype, {5, hidden}, rng),
                       random_parameter(dtype, {4, hidden}, rng),
                       random_parameter(dtype, {2, hidden}, rng),
                       random_parameter(dtype, {hidden}, rng),
                       random_parameter(dtype, {hidden}, rng)};
        if (rng.below(2) == 0) node.inputs.push_back(id_range(2));
        return node;
      },
      11);
}

TEST(NormTrials, GroupNormOfImages) {
  expect_inside(
      [](Rng& rng) {
        const DType dtype = random_float(rng);
        const auto groups = static_cast<std::int64_t>(1 + rng.below(3));
        Dims dims = random_dims(rng, 4, 4, 3);
        const bool last = rng.below(2) == 0;
        const std::int64_t channels = groups * static_cast<std::int64_t>(1 + rng.below(3));
        dims[last ? 3 : 1] = channels;
        const bool skips = rng.below(2) == 0;
        TrialNode node{.op = skips ? "SkipGroupNorm" : "GroupNorm",
                       .domain = "com.microsoft",
                       .version = 1,
                       .outputs = skips ? 2U : 1U};
        node.attrs = {{"epsilon", random_epsilon(rng)},
                      {"groups", groups},
                      {"channels_last", static_cast<std::int64_t>(last ? 1 : 0)},
                      {"activation", static_cast<std::int64_t>(rng.below(2))}};
        node.inputs = {random_rows(dtype, dims, rng), random_parameter(dtype, {channels}, rng),
                       random_parameter(dtype, {channels}, rng)};
        if (skips) node.inputs.push_back(random_rows(dtype, rng.below(2) == 0 ? dims : Dims{dims[0], channels}, rng));
        if (skips && rng.below(2) == 0) node.inputs.push_back(random_parameter(dtype, {channels}, rng));
        return node;
      },
      12);
}

}  // namespace
}  // namespace finity
