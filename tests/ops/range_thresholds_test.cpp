// The exact limits of the float formats come out of the rules: the largest argument
// with a finite result, where saturation begins, what rounds to zero.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "one_node.h"
#include "ops/shared/function_range.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

using Function = Range (*)(DType, const Range&, int);

constexpr DType kFormats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
constexpr int kUlps = 4;

struct Limit {
  const char* name = nullptr;
  Function f = nullptr;
  double at[4] = {};  // by format
};

std::string label(const Limit& limit, std::size_t format) {
  return std::string(limit.name) + " in " + std::string(name(kFormats[format]));
}

// ---- overflow ----------------------------------------------------------------

const Limit kLargestFinite[] = {
    {"exp", exp_of, {11.0859375, 88.5, 88.72283172607421875, 709.7827128933839731}},
    {"sinh", sinh_of, {11.78125, 89.0, 89.415985107421875, 710.47586007394386343}},
    {"cosh", cosh_of, {11.78125, 89.0, 89.415985107421875, 710.47586007394386343}},
};

TEST(Thresholds, FunctionsAreFiniteExactlyUpToTheirLimit) {
  for (const Limit& limit : kLargestFinite) {
    for (std::size_t i = 0; i < 4; ++i) {
      const DType dtype = kFormats[i];
      const double x = limit.at[i];
      const double next = next_up(dtype, x);
      EXPECT_TRUE(limit.f(dtype, {.lo = -x, .hi = x}, kUlps).is_finite()) << label(limit, i);
      EXPECT_TRUE(limit.f(dtype, {.lo = -x, .hi = next}, kUlps).pinf) << label(limit, i);
      EXPECT_FALSE(limit.f(dtype, point(next), kUlps).has_finite()) << label(limit, i);
      EXPECT_LE(limit.f(dtype, point(x), kUlps).hi, max_finite(dtype)) << label(limit, i);
    }
  }
}

TEST(Thresholds, ReciprocalsOfTinyNumbersOverflow) {
  const double largest_bad[4] = {1.5262515262515262515e-5, 2.944486827891444247e-39, 2.9387359646368754003e-39,
                                 5.5626846462680037665e-309};
  for (std::size_t i = 0; i < 4; ++i) {
    const DType dtype = kFormats[i];
    double bad = round_to(dtype, largest_bad[i]);
    if (bad > largest_bad[i]) bad = next_down(dtype, bad);
    EXPECT_TRUE(reciprocal_of(dtype, point(bad)).pinf) << name(dtype);
    EXPECT_TRUE(reciprocal_of(dtype, point(-bad)).ninf) << name(dtype);
    EXPECT_TRUE(reciprocal_of(dtype, point(next_up(dtype, bad))).is_finite()) << name(dtype);
  }
}

// ---- saturation: with a library that rounds correctly, exactly there ---------------

const Limit kOneFrom[] = {
    {"sigmoid",
     sigmoid_of,
     {8.3175219962871697986, 6.2363695902037044342, 17.328679484196309904, 37.429947750237046653}},
    {"tanh", tanh_of, {4.5053956347578010201, 3.4652473829758132407, 9.01091333982870837, 19.061547465398495995}},
};

// The smallest number of the format that is not below x.
double not_below(DType dtype, double x) {
  const double rounded = round_to(dtype, x);
  return rounded < x ? next_up(dtype, rounded) : rounded;
}

// The reference computes in double, so at double's own limits it is itself a little off: 1 + exp(-x) is rounded.
double certainly_before(DType dtype, double x) { return dtype == DType::float64 ? x - 1 : next_down(dtype, x); }
double certainly_from(DType dtype, double x) { return dtype == DType::float64 ? x + 1 : x; }

TEST(Thresholds, SaturationBegins) {
  for (const Limit& limit : kOneFrom) {
    for (std::size_t i = 0; i < 4; ++i) {
      const DType dtype = kFormats[i];
      const double first = not_below(dtype, limit.at[i]);
      EXPECT_EQ(limit.f(dtype, point(first), 0).lo, 1) << label(limit, i);
      EXPECT_LT(limit.f(dtype, point(certainly_before(dtype, first)), 0).hi, 1) << label(limit, i);
      // Whatever is granted to libraries, saturation is never missed.
      EXPECT_EQ(subtract(dtype, point(1), limit.f(dtype, {.lo = 0, .hi = first}, kUlps)).contains(0), true);
    }
  }
}

const Limit kZeroBelow[] = {
    {"exp", exp_of, {-17.328679513998632735, -92.881722195032671462, -103.97207708399179641, -745.13321910194120762}},
    {"sigmoid",
     sigmoid_of,
     {-17.328679513998632735, -92.881722195032671462, -103.97207708399179641, -745.13321910194120762}},
};

TEST(Thresholds, ResultsRoundToZero) {
  for (const Limit& limit : kZeroBelow) {
    for (std::size_t i = 0; i < 4; ++i) {
      const DType dtype = kFormats[i];
      const double first = not_below(dtype, limit.at[i]);
      EXPECT_GT(limit.f(dtype, point(certainly_from(dtype, first)), 0).lo, 0) << label(limit, i);
      EXPECT_EQ(limit.f(dtype, point(next_down(dtype, first)), 0).hi, 0) << label(limit, i);
      EXPECT_TRUE(limit.f(dtype, {.lo = next_down(dtype, first), .hi = 0}, kUlps).contains(0)) << label(limit, i);
    }
  }
}

TEST(Thresholds, LogarithmsOfTheEnds) {
  const double of_smallest[4] = {-16.635532333438687426, -92.188575014472726152, -103.2789299034318511,
                                 -744.44007192138126231};
  const double of_largest[4] = {11.089866488461016076, 88.718925212351863276, 88.722839052068353054,
                                709.78271289338399673};
  for (std::size_t i = 0; i < 4; ++i) {
    const DType dtype = kFormats[i];
    const Range all = log_of(dtype, {.lo = min_subnormal(dtype), .hi = max_finite(dtype)}, 0);
    EXPECT_EQ(all.lo, round_to(dtype, of_smallest[i])) << name(dtype);
    EXPECT_EQ(all.hi, round_to(dtype, of_largest[i])) << name(dtype);
    EXPECT_TRUE(all.is_finite()) << name(dtype);
  }
}

// ---- exact points --------------------------------------------------------------

TEST(Thresholds, LibrariesAreExactWhereTheFunctionIs) {
  for (const DType dtype : kFormats) {
    EXPECT_EQ(exp_of(dtype, point(0), kUlps), (Range{.lo = 1, .hi = 1})) << name(dtype);
    EXPECT_EQ(log_of(dtype, point(1), kUlps).lo, 0) << name(dtype);
    EXPECT_EQ(log_of(dtype, {.lo = 1, .hi = 4}, kUlps).lo, 0) << name(dtype);
    EXPECT_EQ(log_of(dtype, {.lo = 0.5, .hi = 1}, kUlps).hi, 0) << name(dtype);
    EXPECT_EQ(exp_of(dtype, {.lo = -4, .hi = 0}, kUlps).hi, 1) << name(dtype);
    EXPECT_EQ(exp_of(dtype, {.lo = 0, .hi = 4}, kUlps).lo, 1) << name(dtype);
    EXPECT_EQ(cosh_of(dtype, {.lo = -1, .hi = 4}, kUlps).lo, 1) << name(dtype);
    EXPECT_EQ(cos_of(dtype, point(0), kUlps).lo, 1) << name(dtype);
    EXPECT_EQ(acosh_of(dtype, point(1), kUlps).hi, 0) << name(dtype);
    for (const Function f : {erf_of, sin_of, tan_of, asin_of, atan_of, sinh_of, tanh_of, asinh_of, atanh_of,
                             softsign_of, mish_of, gelu_of, gelu_by_tanh_of, hard_swish_of}) {
      EXPECT_EQ(f(dtype, point(0), kUlps).lo, 0) << name(dtype);
      EXPECT_EQ(f(dtype, point(0), kUlps).hi, 0) << name(dtype);
    }
  }
}

TEST(Thresholds, TheSignOfAResultIsRight) {
  for (const DType dtype : kFormats) {
    for (const Function f : {erf_of, sin_of, tan_of, asin_of, atan_of, sinh_of, tanh_of, asinh_of, atanh_of,
                             softsign_of, mish_of, gelu_of, hard_swish_of}) {
      EXPECT_GE(f(dtype, {.lo = 0, .hi = 0.875}, kUlps).lo, 0) << name(dtype);
      EXPECT_LE(f(dtype, {.lo = -0.875, .hi = 0}, kUlps).hi, 0) << name(dtype);
    }
  }
}

// ---- shapes of functions that turn -------------------------------------------------

TEST(Thresholds, MinimaInsideAnIntervalAreFound) {
  struct Dip {
    Function f = nullptr;
    double least = 0;
  };
  for (const Dip& dip : {Dip{gelu_of, -0.16997120747}, Dip{gelu_by_tanh_of, -0.17004075}, Dip{mish_of, -0.30884343},
                         Dip{hard_swish_of, -0.375}}) {
    const Range wide = dip.f(DType::float32, {.lo = -1000, .hi = 1}, kUlps);
    EXPECT_LE(wide.lo, dip.least);
    EXPECT_NEAR(wide.lo, dip.least, 3e-5);
    EXPECT_NEAR(dip.f(DType::float32, {.lo = -0.25, .hi = 1}, kUlps).lo, dip.f(DType::float64, point(-0.25), 0).lo,
                1e-6);
  }
  EXPECT_NEAR(swish_of(DType::float32, {.lo = -100, .hi = 1}, 2, kUlps).lo, -0.27846454276 / 2, 2e-5);
  EXPECT_NEAR(swish_of(DType::float32, {.lo = -1, .hi = 100}, -2, kUlps).hi, 0.27846454276 / 2, 2e-5);
}

TEST(Thresholds, WavesTurnInsideAnInterval) {
  EXPECT_EQ(sin_of(DType::float32, {.lo = 1, .hi = 2}, kUlps).hi, 1);
  EXPECT_EQ(sin_of(DType::float32, {.lo = -2, .hi = -1}, kUlps).lo, -1);
  EXPECT_EQ(cos_of(DType::float32, {.lo = -1, .hi = 1}, kUlps).hi, 1);
  EXPECT_EQ(cos_of(DType::float32, {.lo = 3, .hi = 4}, kUlps).lo, -1);
  EXPECT_NEAR(sin_of(DType::float32, {.lo = 0, .hi = 1}, kUlps).hi, std::sin(1.0), 1e-6);
  EXPECT_NEAR(cos_of(DType::float32, {.lo = 0, .hi = 1}, kUlps).lo, std::cos(1.0), 1e-6);
  EXPECT_NEAR(cos_of(DType::float32, {.lo = 100, .hi = 100.25}, kUlps).lo, std::min(std::cos(100.0), std::cos(100.25)),
              1e-6);
  EXPECT_EQ(sin_of(DType::float32, point(1e9), kUlps), (Range{.lo = -1, .hi = 1}));
  EXPECT_NEAR(tan_of(DType::float32, {.lo = -1, .hi = 1}, kUlps).hi, std::tan(1.0), 1e-5);
  EXPECT_TRUE(may_cross_tan_pole({.lo = 1.5, .hi = 1.625}));
  EXPECT_FALSE(may_cross_tan_pole({.lo = 1.625, .hi = 4.5}));
  // No number of these formats is close enough to a pole for an infinity.
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    EXPECT_TRUE(tan_of(dtype, any_finite(dtype), kUlps).is_finite()) << name(dtype);
  }
}

// ---- attributes --------------------------------------------------------------------------

// Some libraries round an attribute to the format of the operand first, others compute with all of it.
TEST(Thresholds, AttributesHoldAsWrittenAndRounded) {
  Rng rng(3);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    for (int trial = 0; trial < 200; ++trial) {
      const double alpha = static_cast<float>(rng.uniform(-2, 2)), x = round_to(dtype, rng.uniform(-8, -1));
      const Type type = Type::tensor_of(dtype, Dims{1});
      Attrs attrs;
      attrs.set("alpha", static_cast<float>(alpha));
      const OneNode node(*find_op("", "LeakyRelu"), 16, attrs, {type});
      const Range scale = attribute_range(dtype, alpha), y = node.range({point(x)});
      for (const double read : {alpha, round_to(dtype, alpha)}) {
        EXPECT_TRUE(scale.contains(read)) << name(dtype) << " " << alpha << ": " << to_string(scale);
        EXPECT_TRUE(y.contains(round_to(dtype, read * x)))
            << name(dtype) << " " << alpha << " * " << x << ": " << to_string(y);
      }
    }
  }
}

// ---- what ONNX Runtime computes ------------------------------------------------------

// Where its float32 kernels are farthest from the function.
TEST(Thresholds, HoldWhatOnnxRuntimeComputes) {
  const auto swish = [](DType dtype, const Range& x, int ulps) { return swish_of(dtype, x, 1.7020000219345093, ulps); };
  const auto elu = [](DType dtype, const Range& x, int ulps) { return elu_of(dtype, x, 1, ulps); };
  struct Seen {
    std::function<Range(DType, const Range&, int)> f = {};
    double x = 0;
    double y = 0;
  };
  const Seen all[] = {
      {tanh_of, 8.632488250732422, 1.0000002384185791},
      {tanh_of, -8.515850067138672, -1.0000002384185791},
      {sigmoid_of, -16.584428787231445, 0},
      {sigmoid_of, 16.306133270263672, 1},
      {sigmoid_of, -17.651441574096680, 1.4901161193847656e-07},
      {softsign_of, -3.172599859932028e+38, -1.0000002384185791},
      {asin_of, -0.50088924169540405, -0.52462613582611084},
      {acos_of, 0.57966589927673340, 0.95247745513916016},
      {softplus_of, -3.4515461921691895, 0.031204629689455032},
      {gelu_by_tanh_of, -5.0255618095397949, 5.9909365267842077e-07},
      {gelu_of, -7.3197112083435059, -0.0},
      {mish_of, 8.9998474121093750, 8.9998483657836914},
      {swish, -10.364377021789551, -1.5444124983332586e-06},
      {elu, -1.8807896158735786e-37, 0},
      {log_of, 0.82027351856231689, -0.19811739027500153},
  };
  for (const Seen& seen : all) {
    const Range claimed = seen.f(DType::float32, point(seen.x), kUlps);
    EXPECT_TRUE(claimed.contains(seen.y)) << seen.x << ": " << to_string(claimed) << " without " << seen.y;
  }
}

}  // namespace
}  // namespace finity
