// Conversions checked exhaustively against a definition too slow to be the implementation.
#include "ops/elementwise/cast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr DType kFloat8Kinds[] = {DType::float8e4m3fn, DType::float8e4m3fnuz, DType::float8e5m2, DType::float8e5m2fnuz};

Tensor every_float16() {
  Tensor all(DType::float16, {65536});
  const auto bits = all.mutable_data<std::uint16_t>();
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return all;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// The finite value of the format nearest to x, an even code at a tie; beyond the largest one it is that one.
double nearest(DType dtype, double x) {
  double best = 0;
  double best_distance = HUGE_VAL;
  bool best_even = true;
  for (std::uint32_t code = 0; code < 0x80; ++code) {
    const double value = decode_float(dtype, code);
    if (!std::isfinite(value)) continue;
    // Saturation: infinity is as far as the largest float16.
    const double distance = std::abs(value - std::min(std::abs(x), 65504.0));
    const bool even = code % 2 == 0;
    if (distance < best_distance || (distance == best_distance && even && !best_even)) {
      best = value;
      best_distance = distance;
      best_even = even;
    }
  }
  return std::copysign(best, x);
}

TEST(Cast, SaturatingFloat8IsTheNearestValue) {
  const Tensor all = every_float16();
  const std::vector<double> from = elements<double>(all);
  for (const DType kind : kFloat8Kinds) {
    const std::vector<double> to = elements<double>(cast(all, kind));
    for (std::size_t i = 0; i < from.size(); ++i) {
      double wanted = std::isnan(from[i]) ? from[i] : nearest(kind, from[i]);
      if (wanted == 0 && !float_format(kind).negative_zero) wanted = 0.0;
      ASSERT_TRUE(same(to[i], wanted)) << name(kind) << " of " << from[i] << " is " << to[i] << ", not " << wanted;
    }
  }
}

TEST(Cast, EveryFloat16SurvivesItsText) {
  const Tensor all = every_float16();
  const std::vector<double> from = elements<double>(all);
  const std::vector<double> back = elements<double>(cast(cast(all, DType::string), DType::float16));
  for (std::size_t i = 0; i < from.size(); ++i) ASSERT_TRUE(same(from[i], back[i])) << from[i] << " " << back[i];
}

TEST(Cast, EveryFloat8SurvivesFloat16) {
  for (const DType kind : kFloat8Kinds) {
    Tensor all(kind, {256});
    const auto bits = all.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint8_t>(i);
    const CastOptions exact{.saturate = false};
    const std::vector<double> from = elements<double>(all);
    const std::vector<double> back = elements<double>(cast(cast(all, DType::float16), kind, exact));
    for (std::size_t i = 0; i < from.size(); ++i) EXPECT_TRUE(same(from[i], back[i])) << name(kind) << " " << i;
  }
}

TEST(Cast, TextOfNumbers) {
  EXPECT_EQ(number_text(DType::float32, 0x1p-149), "1e-45");
  EXPECT_EQ(number_text(DType::float32, 16777216), "16777216");
  EXPECT_EQ(number_text(DType::float64, 1e15), "1000000000000000");
  EXPECT_EQ(number_text(DType::float64, 1e16), "1e+16");
  EXPECT_EQ(number_text(DType::float64, 0.0001), "0.0001");
  EXPECT_EQ(number_text(DType::float64, 0.00001), "1e-05");
  EXPECT_EQ(number_text(DType::float64, 12.5), "12.5");
  EXPECT_EQ(number_text(DType::float64, 1.7976931348623157e308), "1.7976931348623157e+308");
}

}  // namespace
}  // namespace finity
