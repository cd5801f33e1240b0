// Mixes z * a + (1 - z) * b, computed as graphs compute them, lie where the rule says.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/rng.h"
#include "ops/shared/mix.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr std::array kFormats = {DType::float16, DType::bfloat16, DType::float32};

// One rounding for each operation.
double computed(DType dtype, double z, double a, double b) {
  const auto rounded = [&](double x) { return round_to(dtype, x); };
  return rounded(rounded(z * a) + rounded(rounded(1 - z) * b));
}

// With a multiplication and an addition in one.
double contracted(DType dtype, double z, double a, double b) {
  return round_to(dtype, z * a + round_to(dtype, round_to(dtype, 1 - z) * b));
}

// A step from b towards a, and with a multiplication and an addition in one.
double stepped(DType dtype, double z, double a, double b) {
  const auto rounded = [&](double x) { return round_to(dtype, x); };
  return rounded(b + rounded(z * rounded(a - b)));
}
double contracted_step(DType dtype, double z, double a, double b) {
  return round_to(dtype, b + z * round_to(dtype, a - b));
}

using enum Mix::Form;

// An end as often as something between.
double drawn(Rng& rng, DType dtype, double lo, double hi) {
  const double x = rng.uniform();
  if (x < 0.25) return lo;
  if (x < 0.5) return hi;
  if (x < 0.6 && lo <= 0 && hi >= 0) return std::min(hi, min_subnormal(dtype) * std::floor(rng.uniform(0, 64)));
  return std::clamp(round_to(dtype, rng.uniform(lo, hi)), lo, hi);
}

TEST(RangeMix, HoldsWhatIsComputed) {
  constexpr int kTrials = 200'000;
  Rng rng(14);
  for (const DType dtype : kFormats) {
    for (int i = 0; i < kTrials; ++i) {
      const double x = round_to(dtype, std::ldexp(rng.uniform(-1, 1), static_cast<int>(rng.uniform(-9, 9))));
      const double y = i % 3 == 0 ? -x : round_to(dtype, std::ldexp(rng.uniform(-1, 1), 2));
      const double lo = std::min(x, y), hi = std::max(x, y);
      const double excess = i % 4 == 0 ? 2 * unit_roundoff(dtype) : i % 4 == 1 ? 0.5 : 0;
      const Range range = range_of_mix(dtype, weighted, {.lo = lo, .hi = hi}, excess);
      const Range steps = range_of_mix(dtype, step, {.lo = lo, .hi = hi}, excess);
      const double z = drawn(rng, dtype, -excess, 1 + excess);
      const double a = drawn(rng, dtype, lo, hi), b = drawn(rng, dtype, lo, hi);
      ASSERT_TRUE(range.contains(computed(dtype, z, a, b))) << z << ' ' << a << ' ' << b << " in " << to_string(range);
      ASSERT_TRUE(range.contains(contracted(dtype, z, a, b))) << z << ' ' << a << ' ' << b;
      ASSERT_TRUE(steps.contains(stepped(dtype, z, a, b))) << z << ' ' << a << ' ' << b << " in " << to_string(steps);
      ASSERT_TRUE(steps.contains(contracted_step(dtype, z, a, b))) << z << ' ' << a << ' ' << b;
    }
  }
}

// Every share of float16 there is, at the corners.
TEST(RangeMix, StaysBetweenPowersOfTwo) {
  const DType dtype = DType::float16;
  for (const double p : {0.5, 1.0, 4.0}) {
    for (const Mix::Form form : {weighted, step}) {
      const Range range = range_of_mix(dtype, form, {.lo = -p, .hi = p}, 0);
      EXPECT_EQ(range.lo, -p);
      EXPECT_EQ(range.hi, p);
    }
    for (double z = 0; z <= 1; z = next_up(dtype, z)) {
      for (const double a : {-p, p, round_to(dtype, p * 0.999), min_subnormal(dtype)}) {
        for (const double b : {-p, p, round_to(dtype, p * 0.999)}) {
          ASSERT_LE(std::abs(computed(dtype, z, a, b)), p) << z << ' ' << a << ' ' << b;
          ASSERT_LE(std::abs(stepped(dtype, z, a, b)), p) << z << ' ' << a << ' ' << b;
          ASSERT_LE(std::abs(stepped(dtype, z, b, a)), p) << z << ' ' << a << ' ' << b;
        }
      }
    }
  }
}

// All pairs of some float16 numbers between -1 and 1, a whole step: the worst that rounding of the way can do.
TEST(RangeMix, WholeStepsEndBetweenPowersOfTwo) {
  const DType dtype = DType::float16;
  for (double a = -1; a <= 1; a = next_up(dtype, a + 0x1p-12)) {
    for (double b = -1; b <= 1; b = next_up(dtype, b + 0x1p-12)) {
      ASSERT_LE(std::abs(stepped(dtype, 1, a, b)), 1) << a << ' ' << b;
    }
  }
  // Not where one of them is further from 0 than the power: from -8 or so to 1 a step may end above 1.
  double most = 0;
  for (double b = -8; b < -4; b = next_up(dtype, b)) {
    for (double a = 0.75; a <= 1; a = next_up(dtype, a)) most = std::max(most, stepped(dtype, 1, a, b));
  }
  EXPECT_GT(most, 1);
  EXPECT_GE(range_of_mix(dtype, step, {.lo = -8, .hi = 1}, 0).hi, most);
}

// A share that exceeds 1, numbers that are no powers of two: what is computed does exceed both.
TEST(RangeMix, LeavesRoomWhereItIsNeeded) {
  const DType dtype = DType::float32;
  const double z = 1 + 0x1p-23;
  EXPECT_GT(computed(dtype, z, 1, -1), 1);
  EXPECT_TRUE(range_of_mix(dtype, weighted, {.lo = -1, .hi = 1}, z - 1).contains(computed(dtype, z, 1, -1)));
  EXPECT_TRUE(range_of_mix(dtype, weighted, {.lo = -2e38, .hi = 2e38}, 0).pinf);
}

}  // namespace
}  // namespace finity
