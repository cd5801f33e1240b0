#include "ops/table/hazard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "ops/table/op.h"

namespace finity {
namespace {

const UnsafeSet kZero = {{0, 0}};
const UnsafeSet kNonPositive = {{-kInf, 0}};
const double kNan = std::numeric_limits<double>::quiet_NaN();

UnsafeSet outside_one(DType dtype) { return {{-kInf, next_down(dtype, -1)}, {next_up(dtype, 1), kInf}}; }

Range span(double lo, double hi) { return {.lo = lo, .hi = hi}; }

TEST(Hazard, Meets) {
  EXPECT_TRUE(meets(span(-1, 1), kZero));
  EXPECT_TRUE(meets(span(0, 1), kZero));
  EXPECT_TRUE(meets(span(-1, -0.0), kZero));
  EXPECT_FALSE(meets(span(0.5, 1), kZero));
  EXPECT_FALSE(meets(empty_range(), kZero));
  EXPECT_FALSE(meets(span(-1, 1), {}));
  EXPECT_FALSE(meets({.lo = -1, .hi = 1, .nonzero = true}, kZero));
  EXPECT_TRUE(meets({.lo = -1, .hi = 1, .nonzero = true}, kNonPositive));
  EXPECT_TRUE(meets({.lo = -1, .hi = 1, .nonzero = true}, {{-0.5, 0.5}}));
}

TEST(Hazard, MeetsInfinitiesOnlyWhereTheyAreUnsafe) {
  EXPECT_TRUE(meets({.lo = 1, .hi = 2, .ninf = true}, kNonPositive));
  EXPECT_FALSE(meets({.lo = 1, .hi = 2, .pinf = true}, kNonPositive));
  EXPECT_TRUE(meets({.pinf = true}, outside_one(DType::float32)));
  EXPECT_TRUE(meets({.ninf = true}, outside_one(DType::float32)));
  EXPECT_FALSE(meets({.lo = 1, .hi = 2, .nan = true}, kNonPositive));
  EXPECT_FALSE(meets({.pinf = true}, {{1, 2}}));
}

TEST(Hazard, MeetsKnowsIntegers) {
  EXPECT_FALSE(meets({.lo = 0, .hi = 1, .integer = true}, {{0.25, 0.75}}));
  EXPECT_TRUE(meets({.lo = 0, .hi = 1, .integer = true}, {{0.25, 1.5}}));
  EXPECT_FALSE(meets({.lo = -3, .hi = 3, .integer = true, .nonzero = true}, {{-0.5, 0.5}}));
}

TEST(Hazard, NanEndsProveNothing) {
  for (const Range& range : {span(kNan, 1), span(1, kNan), span(kNan, kNan)}) {
    EXPECT_TRUE(meets(range, kZero));
    EXPECT_TRUE(meets({.lo = range.lo, .hi = range.hi, .integer = true}, kZero));
    EXPECT_FALSE(surely_in(range, {{-kInf, kInf}}));
  }
}

TEST(Hazard, SurelyIn) {
  EXPECT_TRUE(surely_in(span(-2, -1), kNonPositive));
  EXPECT_TRUE(surely_in(point(0), kZero));
  EXPECT_TRUE(surely_in({.ninf = true}, kNonPositive));
  EXPECT_TRUE(surely_in({.lo = -2, .hi = -1, .ninf = true}, kNonPositive));
  EXPECT_TRUE(surely_in({.lo = 2, .hi = 3, .pinf = true, .ninf = true}, outside_one(DType::float32)));
  EXPECT_FALSE(surely_in({.lo = -2, .hi = -1, .pinf = true}, kNonPositive));
  EXPECT_FALSE(surely_in({.lo = -2, .hi = -1, .nan = true}, kNonPositive));
  EXPECT_FALSE(surely_in(span(-2, 1), kNonPositive));
  EXPECT_FALSE(surely_in(empty_range(), kNonPositive));
  EXPECT_FALSE(surely_in({.lo = 0, .hi = 0, .nonzero = true}, kZero));
  EXPECT_FALSE(surely_in(span(-2, -1), {}));
}

TEST(Hazard, WithoutMovesEndsToTheNeighbourInTheFormat) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Range positive = without(span(-5, 5), kNonPositive, dtype);
    EXPECT_EQ(positive, span(next_up(dtype, 0), 5)) << name(dtype);
    EXPECT_EQ(positive.lo, min_subnormal(dtype));
    EXPECT_EQ(without(span(-5, 5), outside_one(dtype), dtype), span(-1, 1)) << name(dtype);
  }
  EXPECT_EQ(without({.lo = -5, .hi = 5, .integer = true}, kNonPositive, DType::float32),
            (Range{.lo = 1, .hi = 5, .integer = true}));
  EXPECT_EQ(without({.lo = -5, .hi = 0, .integer = true}, kZero, DType::int32),
            (Range{.lo = -5, .hi = -1, .integer = true}));
}

TEST(Hazard, WithoutKeepsWhatCannotBeCutOut) {
  EXPECT_EQ(without(span(-1, 1), kZero, DType::float32), (Range{.lo = -1, .hi = 1, .nonzero = true}));
  EXPECT_EQ(without(span(-1, 1), {{0.25, 0.5}}, DType::float32), span(-1, 1));
  EXPECT_EQ(without(span(1, 2), kZero, DType::float32), span(1, 2));
  EXPECT_EQ(without({.lo = 1, .hi = 2, .nan = true, .pinf = true, .ninf = true}, kNonPositive, DType::float32),
            (Range{.lo = 1, .hi = 2, .nan = true, .pinf = true}));
  // A punctured range that loses one half needs the flag no more.
  EXPECT_EQ(without({.lo = -1, .hi = 1, .nonzero = true}, {{-kInf, -0.5}}, DType::float32),
            (Range{.lo = next_up(DType::float32, -0.5), .hi = 1, .nonzero = true}));
  EXPECT_EQ(without({.lo = -1, .hi = 1, .nonzero = true}, kNonPositive, DType::float32),
            span(min_subnormal(DType::float32), 1));
}

TEST(Hazard, WithoutEverythingIsEmpty) {
  EXPECT_TRUE(without(span(-2, -1), kNonPositive, DType::float32).is_empty());
  EXPECT_TRUE(without(point(0), kZero, DType::float16).is_empty());
  EXPECT_TRUE(without({.lo = -2, .hi = 2, .pinf = true, .ninf = true}, {{-kInf, kInf}}, DType::float32).is_empty());
}

// Whatever the set, no value outside it may be lost, and `without` must agree with `meets`.
TEST(Hazard, WithoutIsSoundOnAGrid) {
  const std::vector<UnsafeSet> sets = {kZero, kNonPositive, outside_one(DType::float16), {{-1, -0.5}, {0, 2}}};
  for (const UnsafeSet& set : sets) {
    for (double lo = -3; lo <= 3; lo += 0.5) {
      for (double hi = lo; hi <= 3; hi += 0.5) {
        const Range kept = without(span(lo, hi), set, DType::float16);
        for (double x = lo; x <= hi; x += 0.25) {
          if (!meets(point(x), set)) {
            EXPECT_TRUE(kept.contains(x)) << lo << " " << hi << " " << x;
          }
        }
        EXPECT_EQ(surely_in(span(lo, hi), set), kept.is_empty()) << lo << " " << hi;
      }
    }
  }
}

TEST(Rules, CodesAndSlugsAreUniqueAndComplete) {
  std::set<std::string_view> seen;
  std::string_view previous;
  for (const Rule& rule : all_rules()) {
    EXPECT_TRUE(seen.insert(rule.code).second) << rule.code;
    EXPECT_TRUE(seen.insert(rule.slug).second) << rule.slug;
    EXPECT_LT(previous, rule.code);
    previous = rule.code;
    EXPECT_EQ(rule.code.size(), 5U);
    EXPECT_TRUE(rule.code.starts_with("FN"));
    EXPECT_FALSE(rule.summary.empty() || rule.detail.empty() || rule.fix.empty()) << rule.code;
    EXPECT_NE(rule.summary.back(), '.') << rule.code;
    EXPECT_NE(rule.fix.back(), '.') << rule.code;
    EXPECT_EQ(rule.detail.back(), '.') << rule.code;
    EXPECT_EQ(find_rule(rule.code), &rule);
    EXPECT_EQ(find_rule(rule.slug), &rule);
  }
  EXPECT_EQ(find_rule("FN999"), nullptr);
  EXPECT_EQ(find_rule(""), nullptr);
}

TEST(Rules, OpsNameOnlyRulesOfTheTable) {
  for (const OpDef* op : all_ops()) {
    for (const Hazard& hazard : op->analysis.hazards) {
      EXPECT_NE(find_rule(hazard.rule), nullptr) << op->identity.name << " " << hazard.rule;
      EXPECT_NE(hazard.unsafe, nullptr) << op->identity.name;
    }
    EXPECT_TRUE(op->analysis.overflow.empty() || find_rule(op->analysis.overflow) != nullptr) << op->identity.name;
    EXPECT_TRUE(op->analysis.invalid.empty() || find_rule(op->analysis.invalid) != nullptr) << op->identity.name;
  }
}

}  // namespace
}  // namespace finity
