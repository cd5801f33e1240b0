#include "tensor/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace finity {
namespace {

constexpr DType kNarrow[] = {DType::float16,    DType::bfloat16,       DType::float8e4m3fn, DType::float8e4m3fnuz,
                             DType::float8e5m2, DType::float8e5m2fnuz, DType::float4e2m1};

std::uint32_t code_count(DType dtype) { return 1u << info(dtype).bits; }

// Every finite value of the format, ascending, one entry per value.
std::vector<double> all_values(DType dtype) {
  std::vector<double> values;
  for (std::uint32_t bits = 0; bits < code_count(dtype); ++bits) {
    const double value = decode_float(dtype, bits);
    if (std::isfinite(value)) values.push_back(value);
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

TEST(FloatFormats, EveryCodeSurvivesDecodeAndEncode) {
  for (const DType dtype : kNarrow) {
    for (std::uint32_t bits = 0; bits < code_count(dtype); ++bits) {
      const double value = decode_float(dtype, bits);
      const std::uint32_t again = encode_float(dtype, value);
      if (std::isnan(value)) EXPECT_TRUE(std::isnan(decode_float(dtype, again))) << name(dtype) << " " << bits;
      else EXPECT_EQ(again, bits) << name(dtype);
    }
  }
}

TEST(FloatFormats, RoundsToTheNearestValueTiesToEven) {
  for (const DType dtype : kNarrow) {
    const std::vector<double> values = all_values(dtype);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;
      const double tie = round_to(dtype, middle);
      ASSERT_TRUE(tie == values[i] || tie == values[i + 1]) << name(dtype) << " " << middle;
      EXPECT_EQ(encode_float(dtype, tie) & 1u, 0u) << name(dtype) << " tie at " << middle;
      EXPECT_EQ(round_to(dtype, std::nextafter(middle, -1e300)), values[i]) << name(dtype);
      EXPECT_EQ(round_to(dtype, std::nextafter(middle, 1e300)), values[i + 1]) << name(dtype);
    }
  }
}

TEST(FloatFormats, OverflowsExactlyWhereIeeeDoes) {
  EXPECT_EQ(round_to(DType::float16, 65519.999), 65504.0);
  EXPECT_TRUE(std::isinf(round_to(DType::float16, 65520.0)));
  EXPECT_TRUE(std::isinf(round_to(DType::bfloat16, 0x1.ffp127)));
  EXPECT_EQ(round_to(DType::bfloat16, 0x1.fe8p127), 0x1.fep127);
  EXPECT_EQ(round_to(DType::float8e4m3fn, 464.0), 448.0);
  EXPECT_TRUE(std::isnan(round_to(DType::float8e4m3fn, 464.1)));
  EXPECT_TRUE(std::isnan(round_to(DType::float8e5m2fnuz, 1e9)));
  EXPECT_EQ(round_to(DType::float4e2m1, 100.0), 6.0);
}

TEST(FloatFormats, Float16AgreesWithRepeatedHalving) {
  EXPECT_EQ(encode_float(DType::float16, 1.0), 0x3c00u);
  EXPECT_EQ(encode_float(DType::float16, -2.0), 0xc000u);
  EXPECT_EQ(encode_float(DType::float16, 0x1p-24), 0x0001u);
  EXPECT_EQ(encode_float(DType::float16, 0x1p-25), 0x0000u);
  EXPECT_EQ(encode_float(DType::float16, -0.0), 0x8000u);
  EXPECT_EQ(encode_float(DType::bfloat16, 1.0), 0x3f80u);
  EXPECT_EQ(decode_float(DType::float8e4m3fn, 0x7e), 448.0);
  EXPECT_EQ(decode_float(DType::float8e5m2, 0x7b), 57344.0);
  EXPECT_EQ(decode_float(DType::float8e4m3fnuz, 0x7f), 240.0);
}

TEST(FloatFormats, E8m0HoldsPowersOfTwoOnly) {
  EXPECT_EQ(decode_float(DType::float8e8m0, 127), 1.0);
  EXPECT_EQ(round_to(DType::float8e8m0, 5.0), 4.0);
  EXPECT_EQ(round_to(DType::float8e8m0, 6.0), 8.0);
  EXPECT_TRUE(std::isnan(round_to(DType::float8e8m0, -1.0)));
  for (std::uint32_t bits = 0; bits < 255; ++bits)
    EXPECT_EQ(encode_float(DType::float8e8m0, decode_float(DType::float8e8m0, bits)), bits);
}

// The claim of float_formats.h: one operation in double, rounded once, is the float operation.
TEST(FloatFormats, DoubleThenRoundIsTheFloat32Operation) {
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const auto a = std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits()));
    const auto b = std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits()));
    const double x = static_cast<double>(a);
    const double y = static_cast<double>(b);
    const auto same = [](float direct, double rounded) {
      return (std::isnan(direct) && std::isnan(rounded)) || static_cast<double>(direct) == rounded;
    };
    EXPECT_TRUE(same(a + b, round_to(DType::float32, x + y)));
    EXPECT_TRUE(same(a * b, round_to(DType::float32, x * y)));
    EXPECT_TRUE(same(a / b, round_to(DType::float32, x / y)));
    EXPECT_TRUE(same(std::sqrt(a), round_to(DType::float32, std::sqrt(x))));
  }
}

}  // namespace
}  // namespace finity
