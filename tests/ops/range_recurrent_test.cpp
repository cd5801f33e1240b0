// Ranges of recurrent layers: sound over random weights, activations and lengths; the
// hidden state of the usual ones stays in [-1, 1] and the cell grows by one a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/range_probe.h"
#include "tensor/convert.h"

namespace finity {
namespace {

struct Kind {
  const char* op;
  std::int64_t gates;
  std::size_t functions;
};
constexpr Kind kKinds[] = {{"RNN", 1, 1}, {"GRU", 3, 2}, {"LSTM", 4, 3}};

RangeProbe any_layer(Rng& rng, const Kind& kind, bool usual) {
  const DType dtype = any_float(rng);
  const std::int64_t time = static_cast<std::int64_t>(rng.below(6)), batch = small(rng, 2), input = small(rng, 3);
  const std::int64_t hidden = small(rng, 3), rows = kind.gates * hidden;
  const std::int64_t directions = rng.below(3) == 0 ? 2 : 1;
  const double scale = rng.below(3) == 0 ? 30 : 2;
  const bool known = rng.below(3) != 0;
  const bool lstm = kind.gates == 4;
  RangeProbe probe{.op = kind.op, .version = 14, .outputs = lstm ? 3U : 2U, .settings = any_settings(rng)};
  probe.operands = {any_operand(rng, dtype, {time, batch, input}, -scale, scale, false),
                    any_operand(rng, dtype, {directions, rows, input}, -1, 1, known),
                    any_operand(rng, dtype, {directions, rows, hidden}, -1, 1, rng.below(2) == 0)};
  probe.operands.resize(lstm ? 8 : 6, omitted());
  if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, dtype, {directions, 2 * rows}, -2, 2, rng.below(2) == 0);
  if (rng.below(3) == 0) {
    probe.operands[4] = constant(random_tensor(rng, DType::int32, {batch}, 0, static_cast<double>(time)));
  }
  if (rng.below(2) == 0) probe.operands[5] = any_operand(rng, dtype, {directions, batch, hidden}, -3, 3, false);
  if (lstm && rng.below(2) == 0) probe.operands[6] = any_operand(rng, dtype, {directions, batch, hidden}, -3, 3, false);
  if (lstm && rng.below(2) == 0) probe.operands[7] = any_operand(rng, dtype, {directions, 3 * hidden}, -2, 2, false);
  if (directions == 2) probe.attrs.set("direction", std::string("bidirectional"));
  if (rng.below(4) == 0) probe.attrs.set("clip", 1.5F);
  if (lstm && rng.below(3) == 0) probe.attrs.set("input_forget", std::int64_t{1});
  if (kind.gates == 3 && rng.below(2) == 0) probe.attrs.set("linear_before_reset", std::int64_t{1});
  if (!usual) {
    constexpr const char* kFunctions[] = {
        "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
        "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
    std::vector<std::string> names;
    std::vector<float> alphas, betas;
    for (std::size_t i = 0; i < kind.functions * static_cast<std::size_t>(directions); ++i) {
      names.emplace_back(kFunctions[rng.below(std::size(kFunctions))]);
      alphas.push_back(static_cast<float>(rng.uniform(-1.5, 1.5)));
      betas.push_back(static_cast<float>(rng.uniform(-1.5, 1.5)));
    }
    probe.attrs.set("activations", names);
    probe.attrs.set("activation_alpha", alphas);
    probe.attrs.set("activation_beta", betas);
  }
  return probe;
}

void fuzz(bool usual, std::uint64_t seed) {
  Rng rng = seeded(seed);
  for (const Kind& kind : kKinds) {
    for (int round = 0; round < 500; ++round) {
      RangeProbe probe = any_layer(rng, kind, usual);
      if (rng.below(5) == 0) add_specials(rng, probe);
      ASSERT_EQ(unsound(rng, probe, 5), "") << kind.op << " round " << round;
    }
  }
}

TEST(RangeRecurrent, Sound) { fuzz(true, 1); }
TEST(RangeRecurrent, SoundForAllActivations) { fuzz(false, 2); }

RangeProbe layer(const Kind& kind, DType dtype, std::int64_t time, double x) {
  Rng rng = seeded(3);
  const bool lstm = kind.gates == 4;
  return {.op = kind.op,
          .version = 14,
          .operands = {abstract(uniform(dtype, {time, 1, 4}, Range{.lo = -x, .hi = x})),
                       constant(random_tensor(rng, dtype, {1, kind.gates * 5, 4}, -1, 1)),
                       constant(random_tensor(rng, dtype, {1, kind.gates * 5, 5}, -1, 1))},
          .outputs = lstm ? 3U : 2U};
}

TEST(RangeRecurrent, StatesStayInOne) {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t time : {std::int64_t{20}, std::int64_t{-1}}) {
      RangeProbe half = layer(kind, DType::float16, time, 50);
      half.run();
      EXPECT_GE(half.ranges[0].hull().lo, -1) << kind.op;
      EXPECT_LE(half.ranges[0].hull().hi, 1) << kind.op;
      // Gates of float32 kernels pass 1 by a few units; in a GRU that adds up.
      RangeProbe probe = layer(kind, DType::float32, time, 50);
      probe.run();
      const double most = time < 0 && kind.gates == 3 ? 2.2 : 1.0001;
      EXPECT_GE(probe.ranges[0].hull().lo, -most) << kind.op;
      EXPECT_LE(probe.ranges[0].hull().hi, most) << kind.op;
      EXPECT_GE(probe.ranges[0].hull().hi, 1 + 0x1p-23) << kind.op;
      EXPECT_FALSE(probe.alarms("FN204")) << kind.op;
    }
  }
}

TEST(RangeRecurrent, CellGrowsByOneAStep) {
  RangeProbe probe = layer(kKinds[2], DType::float32, 20, 50);
  probe.run();
  EXPECT_LE(probe.ranges[2].hull().hi, 20.01);
  RangeProbe unknown = layer(kKinds[2], DType::float16, -1, 5);
  unknown.run();
  EXPECT_LE(unknown.ranges[2].hull().hi, 9000);  // no number of steps brings a half further
  EXPECT_FALSE(unknown.alarms("FN204"));
}

TEST(RangeRecurrent, SmallInputsGiveSmallStates) {
  RangeProbe probe = layer(kKinds[0], DType::float32, 3, 0.01);
  probe.operands[2] = constant(Tensor(DType::float32, {1, 5, 5}));
  probe.run();
  EXPECT_LT(probe.ranges[0].hull().hi, 0.05);
}

TEST(RangeRecurrent, GatesOverflowInHalf) {
  for (const double x : {1000.0, 60000.0}) {
    RangeProbe probe = layer(kKinds[2], DType::float16, 4, x);
    probe.run();
    EXPECT_TRUE(probe.judged("FN204"));
    EXPECT_EQ(probe.alarms("FN204"), x > 10000);
  }
}

TEST(RangeRecurrent, UnboundedActivationsMayOverflow) {
  RangeProbe probe = layer(kKinds[0], DType::float32, -1, 1);
  probe.attrs.set("activations", std::vector<std::string>{"Relu"});
  probe.run();
  EXPECT_TRUE(probe.alarms("FN204"));
  RangeProbe known = layer(kKinds[0], DType::float32, 6, 1);
  known.attrs.set("activations", std::vector<std::string>{"Relu"});
  known.run();
  EXPECT_FALSE(known.alarms("FN204"));
}

}  // namespace
}  // namespace finity
