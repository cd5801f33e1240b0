#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace finity {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Convert, IntegersWrapIntoTheirWidth) {
  const std::vector<std::int64_t> values = {300, -1, 128, 7};
  EXPECT_EQ(elements<std::int64_t>(from_elements<std::int64_t>(DType::uint8, {4}, values)),
            (std::vector<std::int64_t>{44, 255, 128, 7}));
  EXPECT_EQ(elements<std::int64_t>(from_elements<std::int64_t>(DType::int8, {4}, values)),
            (std::vector<std::int64_t>{44, -1, -128, 7}));
  EXPECT_EQ(elements<std::int64_t>(from_elements<std::int64_t>(DType::int4, {4}, values)),
            (std::vector<std::int64_t>{-4, -1, 0, 7}));
  EXPECT_EQ(elements<std::int64_t>(from_elements<std::int64_t>(DType::uint2, {4}, values)),
            (std::vector<std::int64_t>{0, 3, 0, 3}));
}

TEST(Convert, LargeUnsignedNumbersKeepTheirValue) {
  const std::vector<std::uint64_t> values = {0xffffffffffffffffu};
  const Tensor tensor = from_elements<std::uint64_t>(DType::uint64, {1}, values);
  EXPECT_EQ(elements<std::uint64_t>(tensor)[0], 0xffffffffffffffffu);
  EXPECT_EQ(elements<double>(tensor)[0], 0x1p64);
}

TEST(Convert, IntegersReachFloat32RoundedOnce) {
  // Through double this would be rounded twice and land on the other neighbour.
  const std::vector<std::int64_t> values = {0x4000004000000001};
  EXPECT_EQ(elements<double>(from_elements<std::int64_t>(DType::float32, {1}, values))[0], 0x1.000002p62);
}

TEST(Convert, FloatsToIntegersTruncateAndSaturate) {
  const std::vector<double> values = {1.9, -1.9, kNaN, kInf, -kInf};
  const Tensor tensor = from_elements<double>(DType::float64, {5}, values);
  EXPECT_EQ(elements<std::int64_t>(tensor),
            (std::vector<std::int64_t>{1, -1, 0, std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min()}));
}

TEST(Convert, BoolIsNonZero) {
  const std::vector<double> values = {0.0, -0.0, 0.5, kNaN};
  EXPECT_EQ(elements<std::int64_t>(from_elements<double>(DType::boolean, {4}, values)),
            (std::vector<std::int64_t>{0, 0, 1, 1}));
}

TEST(Convert, StringsAreNotNumbers) {
  const Tensor text = Tensor::of_strings({1}, {"1"});
  EXPECT_THROW(elements<double>(text), Error);
  EXPECT_THROW(element_as_int(Tensor::scalar(std::int64_t{3}), 1), Error);
}

TEST(Tensor, CopiesShareUntilWritten) {
  Tensor a = Tensor::vector_of(std::vector<std::int64_t>{1, 2});
  Tensor b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  b.mutable_data<std::int64_t>()[0] = 9;
  EXPECT_EQ(a.data<std::int64_t>()[0], 1);
  EXPECT_EQ(b.data<std::int64_t>()[0], 9);
}

TEST(Tensor, RefusesAbsurdSizes) {
  EXPECT_THROW(Tensor(DType::float32, {1 << 20, 1 << 20}), Error);
  EXPECT_THROW(Tensor(DType::int8, {-1}), Error);
  EXPECT_THROW(element_count(Dims{1LL << 40, 1LL << 40}), Error);
  // An empty tensor, but its strides would overflow.
  EXPECT_THROW(element_count(Dims{1LL << 40, 0, 1LL << 40}), Error);
  EXPECT_EQ(Tensor(DType::float32, {0, 5}).size(), 0);
}

}  // namespace
}  // namespace finity
