// Ranges and grids of known elements.
#include <gtest/gtest.h>

#include <limits>

#include "domain/abs_tensor.h"
#include "domain/concrete.h"
#include "domain/constant_cells.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kFloats[] = {DType::float32,      DType::float64,    DType::float16,       DType::bfloat16,
                             DType::float8e4m3fn, DType::float8e5m2, DType::float8e4m3fnuz};

Tensor tensor_of(DType dtype, const std::vector<double>& values) {
  return from_elements<double>(dtype, {static_cast<std::int64_t>(values.size())}, values);
}

// The obvious definition.
Range slow_range(const Tensor& tensor) {
  Range range;
  for (const double x : elements<double>(tensor)) range = join(range, point(x));
  return range;
}

TEST(RangeOf, AgreesWithTheDefinitionInEveryFormat) {
  for (const DType dtype : kFloats) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      Rng rng(seed);
      std::vector<double> values(1 + rng.below(100));
      const bool whole = rng.below(3) == 0;
      for (double& x : values) x = whole ? std::floor(rng.normal() * 4) : rng.normal() * 3;
      if (rng.below(4) == 0) values[rng.below(values.size())] = kNaN;
      if (rng.below(4) == 0) values[rng.below(values.size())] = kInf;
      if (rng.below(4) == 0) values[rng.below(values.size())] = -kInf;
      if (rng.below(4) == 0) values[rng.below(values.size())] = -0.0;
      if (rng.below(8) == 0) values.assign(values.size(), kNaN);
      const Tensor tensor = tensor_of(dtype, values);
      EXPECT_EQ(range_of(tensor), slow_range(tensor)) << name(dtype) << " seed " << seed;
    }
  }
}

TEST(RangeOf, SpecialPatternsOfBits) {
  EXPECT_EQ(to_string(range_of(tensor_of(DType::float32, {-kInf, 1}))),
            to_string(slow_range(tensor_of(DType::float32, {-kInf, 1}))));
  Tensor negative_nan(DType::float32, {2});
  negative_nan.mutable_data<float>()[0] = std::bit_cast<float>(0xffc00000U);
  negative_nan.mutable_data<float>()[1] = 2;
  const Range range = range_of(negative_nan);
  EXPECT_TRUE(range.nan);
  EXPECT_FALSE(range.pinf || range.ninf);
  EXPECT_EQ(range.lo, 2);
  EXPECT_FALSE(std::signbit(range_of(tensor_of(DType::float32, {-0.0})).lo));
  EXPECT_TRUE(range_of(tensor_of(DType::float32, {-1, 1})).nonzero);
  EXPECT_FALSE(range_of(tensor_of(DType::float32, {-1, -0.0, 1})).nonzero);
}

TEST(RangeOf, Integers) {
  const std::vector<std::int64_t> values = {3, -4, std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 60};
  const Range wide = range_of(Tensor::vector_of(values));
  EXPECT_TRUE(wide.integer);
  EXPECT_EQ(wide.lo, -4);
  EXPECT_GE(wide.hi, 0x1p63);
  const Range small = range_of(from_elements<std::int64_t>(DType::uint8, {3}, std::vector<std::int64_t>{7, 255, 9}));
  EXPECT_EQ(small.lo, 7);
  EXPECT_EQ(small.hi, 255);
  const Range flags = range_of(from_elements<std::int64_t>(DType::boolean, {2}, std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(flags.lo, 0);
  EXPECT_EQ(flags.hi, 1);
  const Range four = range_of(from_elements<std::int64_t>(DType::int4, {2}, std::vector<std::int64_t>{-8, 7}));
  EXPECT_EQ(four.lo, -8);
  EXPECT_EQ(four.hi, 7);
  EXPECT_TRUE(range_of(Tensor(DType::float32, {0})).is_empty());
  EXPECT_TRUE(range_of(Tensor::of_strings({1}, {"a"})).nan);
}

AbsTensor cells_of(Dims dims, const std::vector<double>& values, std::size_t max_cells = 64) {
  return from_tensor(std::make_shared<const Tensor>(from_elements<double>(DType::float32, std::move(dims), values)),
                     max_cells);
}

TEST(FromTensor, SmallTensorsHaveACellPerDifferentElement) {
  const AbsTensor x = cells_of({2, 3}, {1, 1, 2, 1, 1, 3});
  EXPECT_EQ(x.cuts, (std::vector<Cuts>{{1}, {2}}));
  ASSERT_EQ(x.cells.size(), 4U);
  EXPECT_EQ(x.cells[3], point(3));
  EXPECT_NE(x.exact, nullptr);
  EXPECT_EQ(cell_form(x, 0).constant, 1);
  EXPECT_EQ(cells_of({2, 2}, {5, 5, 5, 5}).cells.size(), 1U);
  EXPECT_EQ(cells_of({2, 3}, {1, 1, 2, 1, 1, 3}, 1).cells.size(), 1U);
}

// Large tables are read in place: what is said of them is what is said of their elements.
TEST(FromConstant, IsWhatTheElementsSay) {
  constexpr std::size_t kCount = 300 * 301;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::float8e5m2}) {
    for (const double odd : {0.25, 0.0, -300.0, kNaN, static_cast<double>(kInf)}) {
      std::vector<double> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i) values[i] = 0.5 + static_cast<double>(i * 7919 % 100);
      values[kCount - 3] = odd;
      for (const Dims& dims : {Dims{300, 301}, Dims{1, 1, 300 * 301}, Dims{3, 100, 301}}) {
        const Tensor tensor = from_elements<double>(dtype, dims, values);
        for (const std::size_t max_cells : {std::size_t{1}, std::size_t{64}, ~std::size_t{0}}) {
          const AbsTensor in_place = from_constant(*make_constant(tensor), max_cells);
          const AbsTensor copied = from_tensor(std::make_shared<const Tensor>(tensor), max_cells);
          EXPECT_EQ(in_place.cells, copied.cells) << name(dtype) << " " << odd;
          EXPECT_EQ(in_place.cuts, copied.cuts);
          EXPECT_EQ(in_place.sizes, copied.sizes);
          EXPECT_EQ(in_place.exact == nullptr, copied.exact == nullptr);
        }
      }
    }
  }
}

TEST(FromTensor, MasksAreCutWhereTheyChange) {
  std::vector<double> mask(1000, 0.0);
  for (std::size_t i = 700; i < mask.size(); ++i) mask[i] = -1e9;
  const AbsTensor x = cells_of({1, 1, 1000}, mask);
  EXPECT_EQ(x.cuts, (std::vector<Cuts>{{}, {}, {700}}));
}

TEST(FromTensor, LongVectorsHaveEvenChunks) {
  std::vector<double> bias(1000);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i);
  const AbsTensor x = cells_of({1, 1000, 1, 1}, bias);
  EXPECT_LE(x.cells.size(), 64U);
  EXPECT_GT(x.cells.size(), 32U);
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(x.cells[cell_of(x, {0, i, 0, 0})].contains(static_cast<double>(i)));
  }
}

TEST(FromTensor, ColumnsOfTablesStayApart) {
  std::vector<double> boxes;
  for (int i = 0; i < 100; ++i) boxes.insert(boxes.end(), {i * 1.0, -1.0, 100.0 + i, 7.0});
  const AbsTensor x = cells_of({100, 4}, boxes);
  EXPECT_EQ(x.cuts, (std::vector<Cuts>{{}, {1, 2, 3}}));
  EXPECT_EQ(x.cells[1], point(-1));
}

TEST(FromTensor, MembersAreInTheirCells) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    const Dims sizes = random_sizes(rng, 4);
    std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
    for (double& x : values) x = std::floor(rng.uniform(-3, 3));
    const AbsTensor x = cells_of(sizes, values, 1 + rng.below(70));
    std::size_t i = 0;
    for_each_index(sizes, [&](const Dims& index) { EXPECT_TRUE(x.cells[cell_of(x, index)].contains(values[i++])); });
  }
}

}  // namespace
}  // namespace finity
