#include "domain/laws.h"

#include <limits>

#include "domain/abs_tensor.h"
#include "domain/concrete.h"
#include "domain/range.h"
#include "tensor/convert.h"

namespace finity {
namespace {

constexpr double kSpecial[] = {0, 1, -1, 0.5, 65504, -65504, 1e-7, 3.4028234663852886e38, -3.4028234663852886e38, 7};

Range draw_range(Rng& rng, DType dtype) {
  if (rng.below(12) == 0) return {};
  const auto end = [&] {
    return rng.below(2) == 0 ? kSpecial[rng.below(std::size(kSpecial))] : std::ldexp(rng.normal(), int(rng.below(20)));
  };
  const double a = end();
  const double b = end();
  Range range = from_bounds(dtype, std::min(a, b), std::max(a, b));
  range.nan = range.nan || rng.below(5) == 0;
  range.pinf = range.pinf || rng.below(6) == 0;
  range.ninf = range.ninf || rng.below(6) == 0;
  if (rng.below(4) == 0) {
    range.lo = std::ceil(range.lo);
    range.hi = std::floor(range.hi);
    range.integer = range.has_finite();
  }
  range.nonzero = rng.below(3) == 0 && range.lo < 0 && range.hi > 0;
  if (range.nonzero && !range.integer && is_float(dtype) && rng.below(2) == 0) {
    range.gap = from_bounds(dtype, 0, std::min(-range.lo, range.hi) * rng.uniform()).hi;
  }
  return range;
}

template <DType Dtype>
struct Ranges {
  using Element = Range;
  static constexpr int kMostChanges = 200;
  static Range draw(Rng& rng) { return draw_range(rng, Dtype); }
  static Range join(const Range& a, const Range& b) { return ::finity::join(a, b); }
  static Range widen(const Range& a, const Range& b) { return ::finity::widen(a, b, Dtype); }
  static bool is_subset(const Range& a, const Range& b) { return ::finity::is_subset(a, b); }
};

// Bounds on rows, few enough that equal ones meet. Relations to other values are none of a join: relation_test.cpp.
Relation draw_relation(Rng& rng) {
  constexpr Of kOf[] = {Of::largest, Of::smallest, Of::sum, Of::size_sum, Of::norm};
  return RowBound{.axes = 1U << rng.below(2), .of = kOf[rng.below(5)], .in = draw_range(rng, DType::float32)};
}

// Abstract tensors of few shapes, some with unknown sizes, with relations.
struct Tensors {
  using Element = AbsTensor;
  static constexpr int kMostChanges = 2000;
  static AbsTensor draw(Rng& rng) {
    AbsTensor x = random_abstract(rng, rng.below(3) == 0 ? Dims{4, 4} : Dims{2, 3});
    for (Range& cell : x.cells) cell = draw_range(rng, DType::float32);
    while (rng.below(3) == 0) x.relations.push_back(draw_relation(rng));
    if (rng.below(6) == 0) {
      x = smashed(x);
      x.sizes[rng.below(2)] = -1;
    }
    if (rng.below(15) == 0) x = uniform(Type::tensor(DType::float32), x.hull());
    return x;
  }
  static AbsTensor join(const AbsTensor& a, const AbsTensor& b) { return ::finity::join(a, b, 64); }
  static AbsTensor widen(const AbsTensor& a, const AbsTensor& b) { return ::finity::widen(a, b); }
  static bool is_subset(const AbsTensor& a, const AbsTensor& b) { return ::finity::is_subset(a, b); }
};

using Domains = ::testing::Types<Ranges<DType::float32>, Ranges<DType::float16>, Ranges<DType::float64>,
                                 Ranges<DType::int32>, Tensors>;
INSTANTIATE_TYPED_TEST_SUITE_P(Domain, LatticeLaws, Domains);

// ---- what only ranges have --------------------------------------------------------------------------------

TEST(Widening, MovesOnlyTheEndThatMoved) {
  Rng rng(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const Range a = draw_range(rng, DType::float32), b = draw_range(rng, DType::float32);
    const Range wide = widen(a, b, DType::float32);
    if (!a.has_finite() || !b.has_finite()) continue;
    if (b.hi <= a.hi) EXPECT_EQ(wide.hi, a.hi);
    else EXPECT_GE(wide.hi, b.hi);
    if (b.lo >= a.lo) EXPECT_EQ(wide.lo, a.lo);
    else EXPECT_LE(wide.lo, b.lo);
  }
}

TEST(RangeLaws, MeetIsALowerBoundThatAbsorbs) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    Rng rng(seed);
    const Range a = draw_range(rng, DType::float32);
    const Range b = draw_range(rng, DType::float32);
    const Range both = meet(a, b);
    EXPECT_TRUE(is_subset(both, a) && is_subset(both, b)) << to_string(a) << " and " << to_string(b);
    EXPECT_TRUE(is_subset(meet(b, a), both) && is_subset(both, meet(b, a)));
    EXPECT_TRUE(is_subset(meet(a, a), a) && is_subset(a, meet(a, a)));
    const Range absorbed = join(a, meet(a, b));
    EXPECT_TRUE(is_subset(absorbed, a) && is_subset(a, absorbed)) << to_string(a) << " and " << to_string(b);
    const Range back = meet(a, join(a, b));
    EXPECT_TRUE(is_subset(a, back) && is_subset(back, a)) << to_string(a) << " and " << to_string(b);
  }
}

TEST(RangeLaws, OrderAndOperationsAgreeWithMembers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSamples[] = {
      0,    1,     -1,   0.5,   -0.5,      7,          65504,
      1e-7, -1e-7, 1e30, -1e30, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    Rng rng(seed);
    const Range a = draw_range(rng, DType::float32);
    const Range b = draw_range(rng, DType::float32);
    for (const double x : kSamples) {
      EXPECT_TRUE(!(a.contains(x) || b.contains(x)) || join(a, b).contains(x)) << to_string(a) << to_string(b) << x;
      EXPECT_TRUE(!(a.contains(x) && b.contains(x)) || meet(a, b).contains(x)) << to_string(a) << to_string(b) << x;
      EXPECT_TRUE(!is_subset(a, b) || !a.contains(x) || b.contains(x)) << to_string(a) << to_string(b) << x;
    }
  }
}

// ---- what only tensors have -------------------------------------------------------------------------------

TEST(TensorLattice, MembersStayMembers) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    const Dims sizes = random_sizes(rng, 3);
    AbsTensor a = random_abstract(rng, sizes);
    const AbsTensor b = random_abstract(rng, sizes);
    World world;
    const Concrete x = world.populate(a, rng);
    const std::size_t cells = 1 + rng.below(10);
    AbsTensor simple = a;
    simplify(simple, cells);
    EXPECT_LE(simple.cells.size(), cells);
    for (const AbsTensor& y : {join(a, b, cells), join(b, a, cells), widen(a, b), widen(b, a), simple, smashed(a)}) {
      for_each_index(sizes, [&](const Dims& index) { EXPECT_TRUE(y.cells[cell_of(y, index)].contains(x.at(index))); });
    }
  }
}

TEST(TensorLattice, ClaimsOfTheLargerMustHoldInTheSmaller) {
  const Range unit = from_bounds(DType::float32, 0, 1);
  const AbsTensor plain = uniform(DType::float32, {2, 3}, unit);
  AbsTensor claims = plain;
  claims.relations.push_back(AggregateBound{.source = {ValueId{1}, 1}, .of = Of::largest});
  EXPECT_FALSE(is_subset(plain, claims));
  EXPECT_TRUE(is_subset(claims, plain));
  AbsTensor related = plain;
  related.forms = {symbol_form(0)};
  EXPECT_FALSE(is_subset(plain, related));
  EXPECT_TRUE(is_subset(related, related));
  EXPECT_TRUE(is_subset(plain, uniform(DType::float32, {-1, 3}, unit)));
  EXPECT_FALSE(is_subset(uniform(DType::float32, {-1, 3}, unit), plain));
  EXPECT_FALSE(is_subset(plain, uniform(DType::float16, {2, 3}, unit)));
}

TEST(TensorLattice, JoinForgetsRelationsToOtherValues) {
  AbsTensor x = uniform(DType::float32, {2, 3}, from_bounds(DType::float32, 0, 1));
  x.relations = {AggregateBound{.source = {ValueId{1}, 1}, .of = Of::largest},
                 RowBound{.axes = 2, .of = Of::sum, .in = point(1)}};
  x.identity = ValueId{4};
  const AbsTensor y = join(x, x, 64);
  ASSERT_EQ(y.relations.size(), 1U);
  EXPECT_NE(find_rows(y.relations, Of::sum), nullptr);
  EXPECT_FALSE(y.identity.valid());
}

TEST(TensorLattice, SimplifyPrefersWhatCostsLittle) {
  AbsTensor x = uniform(DType::float32, {4}, {});
  x.cuts = {{1, 2, 3}};
  x.cells = {point(0), point(100), point(100.5), point(-7)};
  simplify(x, 3);
  EXPECT_EQ(x.cuts, (std::vector<Cuts>{{1, 3}}));
  simplify(x, 1);
  EXPECT_TRUE(x.cuts.empty());
  EXPECT_EQ(x.cells[0].lo, -7);
  EXPECT_EQ(x.cells[0].hi, 100.5);
}

TEST(TensorLattice, EqualNeighboursBecomeOne) {
  AbsTensor x = uniform(DType::float32, {4}, {});
  x.cuts = {{1, 2, 3}};
  x.cells = {point(1), point(1), point(2), point(2)};
  simplify(x, 64);
  EXPECT_EQ(x.cuts, (std::vector<Cuts>{{2}}));
  // Cells with different forms stay apart while there is room.
  AbsTensor y = uniform(DType::float32, {2}, {});
  y.cuts = {{1}};
  y.cells.assign(2, from_bounds(DType::float32, 0, 1));
  y.forms = {symbol_form(0), symbol_form(1)};
  simplify(y, 64);
  EXPECT_EQ(y.cells.size(), 2U);
  simplify(y, 1);
  EXPECT_FALSE(cell_form(y, 0).valid);
}

TEST(TensorCounts, UnknownSizesGiveBounds) {
  const AbsTensor x = uniform(DType::float32, {2, -1, 5}, {});
  EXPECT_EQ(x.least_count(0b101), 10);
  EXPECT_EQ(x.most_count(0b101), 10);
  EXPECT_EQ(x.least_count(0b111), 0);
  EXPECT_EQ(x.most_count(0b111), 10 * kManyElements);
  const AbsTensor y = uniform(Type::tensor(DType::float32, {Dim::of(2), Dim::between(3, 7), Dim::of(5)}), {});
  EXPECT_EQ(y.least_count(0b111), 30);
  EXPECT_EQ(y.most_count(0b111), 70);
  EXPECT_TRUE(x.may_be_empty());
  EXPECT_FALSE(y.may_be_empty());
  EXPECT_EQ(uniform(DType::float32, {0, -1}, {}).most_count(0b11), 0);
  EXPECT_EQ(uniform(Type::tensor(DType::float32), {}).most_count(1), kManyElements);
}

TEST(Exact, IsKeptWhereBothAreTheSame) {
  const auto known = [](double last) {
    return from_tensor(
        std::make_shared<const Tensor>(from_elements<double>(DType::float32, {2}, std::vector<double>{1, last})), 64);
  };
  const AbsTensor a = known(2), b = known(3), some = uniform(DType::float32, Dims{2}, Range{.lo = 0, .hi = 4});
  for (const auto merged : {+[](const AbsTensor&x, const AbsTensor&y) { return join(x, y, 64); },
                            +[](const AbsTensor&x, const AbsTensor&y) { return widen(x, y); }}) {
    EXPECT_NE(merged(a, known(2)).exact, nullptr);
    EXPECT_EQ(merged(a, b).exact, nullptr);
    EXPECT_EQ(merged(a, some).exact, nullptr);
    EXPECT_EQ(merged(some, a).exact, nullptr);
  }
}

}  // namespace
}  // namespace finity
