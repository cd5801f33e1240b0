#include "exec/compare.h"

#include <gtest/gtest.h>

#include <limits>

#include "tensor/convert.h"

namespace finity {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor floats(std::vector<double> values) {
  return from_elements<double>(DType::float32, {static_cast<std::int64_t>(values.size())}, values);
}

TEST(Compare, NanEqualsNanAndNothingElse) {
  EXPECT_TRUE(compare(floats({kNaN, kInf}), floats({kNaN, kInf})).identical);
  EXPECT_FALSE(compare(floats({kNaN}), floats({1})).within);
  EXPECT_FALSE(compare(floats({1}), floats({kNaN})).within);
  EXPECT_FALSE(compare(floats({kInf}), floats({-kInf})).within);
  EXPECT_FALSE(compare(floats({1e30}), floats({kInf})).within);
}

TEST(Compare, UsesRelativeAndAbsoluteTolerance) {
  EXPECT_TRUE(compare(floats({1000.5}), floats({1000})).within);
  EXPECT_FALSE(compare(floats({1002}), floats({1000})).within);
  EXPECT_TRUE(compare(floats({5e-8}), floats({0})).within);
  const Compared result = compare(floats({1, 2, 5}), floats({1, 2, 3}));
  EXPECT_EQ(result.beyond, 1);
  EXPECT_EQ(result.worst, 2);
  EXPECT_EQ(result.largest_absolute, 2);
}

TEST(Compare, ZeroSignsDifferButAgree) {
  const Compared result = compare(floats({-0.0}), floats({0.0}));
  EXPECT_FALSE(result.identical);
  EXPECT_TRUE(result.within);
}

TEST(Compare, FormComesFirst) {
  EXPECT_EQ(compare(floats({1}), floats({1, 2})).why, "shape is [1], expected [2]");
  EXPECT_FALSE(compare(floats({1}), Datum()).within);
  EXPECT_FALSE(compare(Datum::sequence({floats({1})}), Datum::sequence({})).within);
  EXPECT_TRUE(compare(Datum::sequence({floats({1})}), Datum::sequence({floats({1})})).identical);
}

TEST(Compare, LargeIntegersAreNotComparedAsDoubles) {
  const Tensor a = Tensor::scalar((std::int64_t{1} << 60) + 1);
  const Tensor b = Tensor::scalar(std::int64_t{1} << 60);
  EXPECT_FALSE(compare(a, b).identical);
}

}  // namespace
}  // namespace finity
