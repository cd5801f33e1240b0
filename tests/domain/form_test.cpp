// Affine forms against what they stand for: random sums of symbols, their positive parts and constants, evaluated at
// every corner of the symbols' ranges. Forms are linear on either side of zero, so the corners and zeros decide.
#include "domain/form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/rng.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr std::size_t kSymbols = 3;
constexpr int kForms = 3000;

using Values = std::vector<double>;  // by symbol

struct Meant {
  Form form = {};
  std::function<double(const Values&)> value = {};
};

Range drawn_interval(Rng& rng) {
  const double a = std::floor(rng.uniform(-5, 5)), b = std::floor(rng.uniform(-5, 5));
  return {.lo = std::min(a, b), .hi = std::max(a, b)};
}

Meant symbol(Sym number) {
  return {symbol_form(number), [number](const Values& x) { return x[static_cast<std::size_t>(number)]; }};
}

Meant drawn_leaf(Rng& rng, Symbols& symbols) {
  if (rng.below(4) == 0) {
    const double c = std::floor(rng.uniform(-4, 4));
    return {constant_form(c), [c](const Values&) { return c; }};
  }
  const Meant leaf = symbol(static_cast<Sym>(rng.below(kSymbols)));
  if (rng.below(2) == 0) return leaf;
  const double factor = rng.below(2) == 0 ? -2 : 0.5;
  const Form part = positive_part(scale(leaf.form, factor), symbols);
  return {part, [=](const Values& x) { return std::max(factor * leaf.value(x), 0.0); }};
}

Meant drawn_meaning(Rng& rng, Symbols& symbols) {
  Meant sum = drawn_leaf(rng, symbols);
  const std::uint64_t steps = rng.below(5);
  for (std::uint64_t i = 0; i < steps; ++i) {
    const Meant next = drawn_leaf(rng, symbols), before = sum;
    switch (rng.below(3)) {
      case 0:
        sum = {add(before.form, next.form), [=](const Values& x) { return before.value(x) + next.value(x); }};
        break;
      case 1:
        sum = {subtract(before.form, next.form), [=](const Values& x) { return before.value(x) - next.value(x); }};
        break;
      default: sum = {scale(before.form, -4), [=](const Values& x) { return -4 * before.value(x); }}; break;
    }
  }
  return sum;
}

// Ends and zero of every symbol.
std::vector<Values> corners(const std::vector<Range>& ranges) {
  std::vector<Values> all = {{}};
  for (const Range& range : ranges) {
    std::vector<Values> longer;
    for (const Values& start : all) {
      for (const double x : {range.lo, range.hi, std::clamp(0.0, range.lo, range.hi)}) {
        longer.push_back(start);
        longer.back().push_back(x);
      }
    }
    all = std::move(longer);
  }
  return all;
}

TEST(Forms, BoundsAreThoseOfTheCorners) {
  Rng rng(3);
  for (int trial = 0; trial < kForms; ++trial) {
    Symbols symbols;
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < kSymbols; ++i) {
      ranges.push_back(drawn_interval(rng));
      symbols.fresh(ranges.back());
    }
    const Meant meant = drawn_meaning(rng, symbols);
    ASSERT_TRUE(meant.form.valid);
    double lo = kInf, hi = -kInf;
    for (const Values& x : corners(ranges)) {
      lo = std::min(lo, meant.value(x));
      hi = std::max(hi, meant.value(x));
    }
    const Bounds bounds = evaluate(meant.form, symbols);
    const double slack = 1e-11 * (1 + std::abs(lo) + std::abs(hi));
    ASSERT_LE(bounds.lo, lo) << trial;
    ASSERT_GE(bounds.hi, hi) << trial;
    ASSERT_GE(bounds.lo, lo - slack) << trial;
    ASSERT_LE(bounds.hi, hi + slack) << trial;
  }
}

TEST(Forms, EqualSumsCancel) {
  Symbols symbols;
  const Form x = symbol_form(symbols.fresh({.lo = -1, .hi = 3})), y = symbol_form(symbols.fresh({.lo = 0, .hi = 2}));
  const Form sum = add(x, y);
  EXPECT_TRUE(subtract(sum, add(y, x)).terms.empty());
  EXPECT_EQ(evaluate(subtract(sum, y), symbols).lo, -1);
  EXPECT_EQ(evaluate(subtract(sum, y), symbols).hi, 3);
  // relu(x) - x is never negative: its two symbols belong together.
  const Form positive = positive_part(x, symbols);
  EXPECT_NEAR(evaluate(subtract(positive, x), symbols).hi, 1, 1e-14);
  EXPECT_NEAR(evaluate(subtract(positive, x), symbols).lo, 0, 1e-14);
}

TEST(Forms, PositivePartsOfPositiveParts) {
  Symbols symbols;
  const Form x = symbol_form(symbols.fresh({.lo = -1, .hi = 3}));
  const Form positive = positive_part(x, symbols);
  EXPECT_TRUE(subtract(positive_part(positive, symbols), positive).terms.empty());
  const Form nothing = positive_part(scale(positive, -2), symbols);
  EXPECT_TRUE(nothing.valid);
  EXPECT_EQ(evaluate(nothing, symbols).lo, 0);
  EXPECT_EQ(evaluate(nothing, symbols).hi, 0);
}

// Constants are added in double, which rounds.
TEST(Forms, SumsOfConstantsAllowForTheirOwnRounding) {
  Symbols symbols;
  for (const double sign : {1.0, -1.0}) {
    const Form sum = add(constant_form(sign * 0.1), constant_form(sign * 0x1p53));
    const Bounds bounds = evaluate(sum, symbols);
    EXPECT_LE(bounds.lo, sign * 0x1p53 - 0.2);
    EXPECT_GE(bounds.hi, sign * 0x1p53 + 0.2);
    const Form twice = add(add(sum, constant_form(sign * 0.1)), constant_form(sign * 0.1));
    EXPECT_GE(twice.error, sum.error);
    EXPECT_GT(scale(constant_form(sign * 0.1), 0.3).error, 0);
    EXPECT_GE(evaluate(twice, symbols).hi - evaluate(twice, symbols).lo, bounds.hi - bounds.lo);
  }
}

TEST(Forms, RoundingIsAnErrorOfTheFormat) {
  Symbols symbols;
  const Form x = symbol_form(symbols.fresh({.lo = 0, .hi = 1000}));
  const Form third = scale(x, 0.3);
  ASSERT_TRUE(third.valid);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    const Form form = rounded(third, dtype, symbols, {.lo = 0, .hi = 300});
    EXPECT_GE(form.error, rounding_error(dtype, 300));
    EXPECT_LE(form.error, 1.01 * rounding_error(dtype, 301));
    for (double value = 0; value <= 1000; value += 0.7) {
      EXPECT_LE(std::abs(round_to(dtype, 0.3 * value) - 0.3 * value), form.error);
    }
  }
  EXPECT_EQ(rounded(third, DType::int32, symbols, {}).error, third.error);
}

TEST(Forms, WhatCannotBeSaidIsNotSaid) {
  Symbols symbols;
  const Form x = symbol_form(symbols.fresh({.lo = 1, .hi = 2}));
  EXPECT_FALSE(scale(scale(x, 0.3), 0.7).valid);  // the factor would be rounded
  EXPECT_TRUE(scale(scale(x, 0.3), -2).valid);
  EXPECT_FALSE(scale(x, kInf).valid);
  EXPECT_FALSE(add(x, Form{}).valid);
  EXPECT_FALSE(subtract(Form{}, x).valid);
  EXPECT_FALSE(positive_part(add(x, constant_form(1)), symbols).valid);
  EXPECT_EQ(evaluate(Form{}, symbols).lo, -kInf);
  Form many = x;
  for (std::size_t i = 0; i < kMaxTerms; ++i) many = add(many, symbol_form(symbols.fresh({.lo = 0, .hi = 1})));
  EXPECT_FALSE(many.valid);
}

}  // namespace
}  // namespace finity
