// What elementwise rules keep besides cells: relations, forms, grids, identities.
#include <gtest/gtest.h>

#include <algorithm>

#include "one_node.h"
#include "ops/shared/function_range.h"
#include "ops/shared/relation_rules.h"

namespace finity {
namespace {

constexpr ValueId kSource{7};

AbsTensor operand(const Range& range, DType dtype = DType::float32) {
  AbsTensor x = uniform(dtype, {2, 3}, range);
  x.identity = kSource;
  return x;
}

AbsTensor run(std::string_view op, AbsTensor x, Symbols& symbols, Attrs attrs = {}, int version = 21) {
  const OneNode node(*find_op("", op), version, std::move(attrs), {Type::tensor_of(x.dtype, x.sizes)});
  return node.ranges({std::move(x)}, symbols).outputs[0];
}

AbsTensor run(std::string_view op, AbsTensor x, Attrs attrs = {}, int version = 21) {
  Symbols symbols;
  return run(op, std::move(x), symbols, std::move(attrs), version);
}

AbsTensor with_row_max(const Range& all, const Range& largest) {
  AbsTensor x = operand(all);
  x.relations.push_back(RowBound{.axes = 2, .of = Of::largest, .in = largest});
  return x;
}

TEST(ElementwiseRelations, TheLargestOfARowGoesToTheLargest) {
  const AbsTensor x = with_row_max({.lo = -20, .hi = 0}, point(0));
  const AbsTensor e = run("Exp", x);
  const RowBound* rows = find_rows(e.relations, Of::largest);
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->in, (Range{.lo = 1, .hi = 1}));
  EXPECT_EQ(rows->axes, 2U);
  for (const std::string_view op :
       {"Tanh", "Sigmoid", "Softplus", "Erf", "Floor", "Relu", "LeakyRelu", "Elu", "Sinh"}) {
    EXPECT_NE(find_rows(run(op, x).relations, Of::largest), nullptr) << op;
  }
  for (const std::string_view op : {"Neg", "Abs", "Cos", "Gelu", "Mish", "Reciprocal", "Acos"}) {
    EXPECT_EQ(find_rows(run(op, x).relations, Of::largest), nullptr) << op;
  }
}

const CaseSplit* split_of(const AbsTensor& x) {
  for (const CaseSplit& split : each<CaseSplit>(x.relations)) return &split;
  return nullptr;
}

TEST(ElementwiseRelations, CasesOfAMaximumGoThroughEveryFunction) {
  AbsTensor x = operand({.lo = -5, .hi = 0});
  x.relations.push_back(CaseSplit{.operands = {kSource, ValueId{8}}, .when = 1, .in = point(0)});
  for (const std::string_view op : {"Exp", "Cos"}) {
    const AbsTensor y = run(op, x);
    const CaseSplit* split = split_of(y);
    ASSERT_NE(split, nullptr) << op;
    EXPECT_EQ(split->in.lo, 1) << op;
    EXPECT_EQ(split->operands.size(), 2U) << op;
    EXPECT_FALSE(split->covers_all());
  }
}

TEST(ElementwiseRelations, ReluIsAMaximum) {
  const AbsTensor y = run("Relu", operand({.lo = -5, .hi = 5}));
  EXPECT_NE(find_below(y.relations, Of::largest, kSource), nullptr);
  auto maxima = each<MaximumOf>(y.relations);
  ASSERT_FALSE(maxima.empty());
  EXPECT_EQ(maxima.front().operands, (std::vector<ValueId>{kSource, ValueId{}}));
  // -relu(x) is 0 where 0 is the larger.
  AbsTensor m = y;
  m.identity = ValueId{9};
  const AbsTensor negated = run("Neg", m);
  const CaseSplit* split = split_of(negated);
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(split->in, point(0));
  EXPECT_EQ(split->when, 2U);
}

TEST(ElementwiseRelations, OrderOfOperandAndResult) {
  const AbsTensor x = operand({.lo = -5, .hi = 5});
  EXPECT_NE(find_below(run("Abs", x).relations, Of::largest, kSource), nullptr);
  EXPECT_NE(find_below(run("Abs", x).relations, Of::magnitude, kSource), nullptr);
  EXPECT_NE(find_below(run("Ceil", x).relations, Of::largest, kSource), nullptr);
  EXPECT_NE(find_above(run("Floor", x).relations, Of::smallest, kSource), nullptr);
  EXPECT_EQ(find_above(run("Round", x).relations, Of::smallest, kSource), nullptr);
  // The largest absolute value of an integer wraps.
  const AbsTensor whole = run("Abs", operand({.lo = -5, .hi = 5, .integer = true}, DType::int8));
  EXPECT_EQ(find_below(whole.relations, Of::largest, kSource), nullptr);
}

TEST(ElementwiseRelations, ClipKnowsItsOrder) {
  const AbsTensor x = operand({.lo = -5, .hi = 5});
  const auto clip = [&](std::optional<double> low, std::optional<double> high) {
    const Type scalar = Type::tensor_of(DType::float32, Dims{});
    const auto type = [&](auto& limit) { return limit ? scalar : Type{}; };
    const OneNode node(*find_op("", "Clip"), 13, {}, {Type::tensor_of(DType::float32, x.sizes), type(low), type(high)});
    std::vector<AbsTensor> operands = {x, {}, {}};
    if (low) operands[1] = uniform(scalar, point(*low));
    if (high) operands[2] = uniform(scalar, point(*high));
    return node.ranges(operands).outputs[0];
  };
  EXPECT_NE(find_below(clip(-1, {}).relations, Of::largest, kSource), nullptr);
  EXPECT_NE(find_below(clip(-1, 5).relations, Of::largest, kSource), nullptr);  // the upper limit does nothing
  EXPECT_EQ(find_below(clip(-1, 4).relations, Of::largest, kSource), nullptr);
  EXPECT_NE(find_above(clip({}, 1).relations, Of::smallest, kSource), nullptr);
  const AbsTensor positive = clip(0, {});
  EXPECT_FALSE(each<MaximumOf>(positive.relations).empty());
  EXPECT_EQ(clip(-1, 1).hull(), (Range{.lo = -1, .hi = 1}));
  EXPECT_EQ(clip(2, 1).hull().lo, 1);  // the upper limit wins
  EXPECT_EQ(clip(2, 1).hull().hi, 1);
  EXPECT_EQ(clip(-6, 6).identity, kSource);  // nothing happens
  EXPECT_EQ(clip(-6, 4).identity, ValueId{});
}

TEST(ElementwiseRelations, WhatDoesNothingIsTheSameValue) {
  const AbsTensor positive = operand({.lo = 0, .hi = 5});
  EXPECT_EQ(run("Abs", positive).identity, kSource);
  EXPECT_EQ(run("Relu", positive).identity, kSource);
  EXPECT_EQ(run("Floor", operand({.lo = 0, .hi = 5, .integer = true})).identity, kSource);
  Attrs to_float;
  to_float.set("to", static_cast<std::int64_t>(DType::float32));
  EXPECT_EQ(run("Cast", positive, to_float).identity, kSource);
  EXPECT_EQ(run("Dropout", positive, {}, 7).identity, kSource);
  EXPECT_EQ(run("Abs", operand({.lo = -1, .hi = 5})).identity, ValueId{});
  Range maybe_nan{.lo = 0, .hi = 1, .nan = true};
  EXPECT_EQ(run("Relu", operand(maybe_nan)).identity, ValueId{});  // a library may turn NaN into 0
}

// ---- forms -------------------------------------------------------------------

struct Symbolic {
  Symbols symbols = {};
  AbsTensor x = {};

  explicit Symbolic(const Range& range, DType dtype = DType::float32) : x(operand(range, dtype)) {
    x.first_symbol = symbols.fresh(range);
  }
  Form own() const { return symbol_form(x.first_symbol); }
  Bounds of(const Form& form) const { return evaluate(form, symbols); }
};

TEST(ElementwiseForms, NegationCancels) {
  Symbolic s({.lo = -5, .hi = 5});
  const AbsTensor y = run("Neg", s.x, s.symbols);
  ASSERT_EQ(y.forms.size(), 1U);
  EXPECT_EQ(s.of(add(y.forms[0], s.own())).lo, 0);
  EXPECT_EQ(s.of(add(y.forms[0], s.own())).hi, 0);
}

TEST(ElementwiseForms, ReluMinusItsOperandIsNotNegative) {
  Symbolic s({.lo = -5, .hi = 5});
  const AbsTensor y = run("Relu", s.x, s.symbols);
  ASSERT_EQ(y.forms.size(), 1U);
  EXPECT_NEAR(s.of(subtract(y.forms[0], s.own())).lo, 0, 1e-12);
  EXPECT_NEAR(s.of(subtract(y.forms[0], s.own())).hi, 5, 1e-12);
  Symbolic negative({.lo = -5, .hi = -1});
  const AbsTensor zero = run("Relu", negative.x, negative.symbols);
  ASSERT_EQ(zero.forms.size(), 1U);
  EXPECT_EQ(negative.of(zero.forms[0]).hi, 0);
}

TEST(ElementwiseForms, CastsRound) {
  const auto cast = [](Symbolic& s, DType to) {
    Attrs attrs;
    attrs.set("to", static_cast<std::int64_t>(to));
    return run("Cast", s.x, s.symbols, attrs);
  };
  Symbolic half({.lo = -5, .hi = 5}, DType::float16);
  const AbsTensor wide = cast(half, DType::float32);
  ASSERT_EQ(wide.forms.size(), 1U);
  EXPECT_EQ(wide.forms[0].error, 0);
  Symbolic single({.lo = -5, .hi = 5});
  const AbsTensor narrow = cast(single, DType::float16);
  ASSERT_EQ(narrow.forms.size(), 1U);
  EXPECT_GE(narrow.forms[0].error, 5 * unit_roundoff(DType::float16));
  EXPECT_TRUE(cast(single, DType::int32).forms.empty());
  Symbolic whole({.lo = -5, .hi = 5, .integer = true});
  EXPECT_EQ(cast(whole, DType::int32).forms.size(), 1U);
}

TEST(ElementwiseForms, NoneWithoutAffineForms) {
  Symbolic s({.lo = -5, .hi = 5});
  for (const std::string_view op : {"Neg", "Relu"}) {
    const OneNode node(*find_op("", op), 21, {}, {Type::tensor_of(DType::float32, s.x.sizes)});
    EXPECT_TRUE(node.ranges({s.x}, s.symbols, {.affine = false}).outputs[0].forms.empty());
  }
}

// ---- grids -------------------------------------------------------------------

TEST(ElementwiseGrids, EveryCellIsMapped) {
  AbsTensor x = operand({});
  x.cuts = {{}, {1}};
  x.cells = {{.lo = -2, .hi = -1}, {.lo = 3, .hi = 4}};
  const AbsTensor y = run("Abs", x);
  ASSERT_EQ(y.cells.size(), 2U);
  EXPECT_EQ(y.cells[0].lo, 1);
  EXPECT_EQ(y.cells[1].hi, 4);
  EXPECT_EQ(y.cuts, x.cuts);
}

// ---- casts -------------------------------------------------------------------

TEST(CastSites, FloatsThatIntegersCannotHold) {
  const auto sites = [](const Range& x, DType to) {
    Attrs attrs;
    attrs.set("to", static_cast<std::int64_t>(to));
    const OneNode node(*find_op("", "Cast"), 21, attrs, {Type::tensor_of(DType::float32, Dims{2, 3})});
    return node.ranges({operand(x)}).sites;
  };
  const auto possible = [&](const Range& x, DType to) { return sites(x, to).at(0).possible; };
  EXPECT_EQ(sites({.lo = 0, .hi = 1}, DType::int8).at(0).rule, "FN115");
  EXPECT_TRUE(sites({.lo = 0, .hi = 1}, DType::float16).empty());
  EXPECT_FALSE(possible({.lo = -128.5, .hi = 127.5}, DType::int8));
  EXPECT_TRUE(possible({.lo = -129, .hi = 0}, DType::int8));
  EXPECT_TRUE(possible({.lo = 0, .hi = 128}, DType::int8));
  EXPECT_FALSE(possible({.lo = -0.5, .hi = 0}, DType::uint8));
  EXPECT_TRUE(possible({.lo = -1, .hi = 0}, DType::uint8));
  EXPECT_FALSE(possible({.lo = -0x1p31, .hi = 2147483520.0}, DType::int32));
  EXPECT_TRUE(possible({.lo = 0, .hi = 0x1p31}, DType::int32));
  EXPECT_FALSE(possible({.lo = -0x1p63, .hi = 9.2233714871e18}, DType::int64));
  EXPECT_TRUE(possible({.lo = 0, .hi = 0x1p63}, DType::int64));
  EXPECT_TRUE(possible({.lo = 0, .hi = 1, .nan = true}, DType::int32));
  EXPECT_TRUE(possible({.lo = 0, .hi = 1, .pinf = true}, DType::int32));
  EXPECT_TRUE(sites({.lo = 300, .hi = 400}, DType::int8).at(0).certain);
  EXPECT_FALSE(sites({.lo = 100, .hi = 400}, DType::int8).at(0).certain);
}

TEST(CastSites, TruncationGoesTowardsZero) {
  Attrs attrs;
  attrs.set("to", static_cast<std::int64_t>(DType::int32));
  // 1 / float(int(x)) divides by zero for x in [-0.9, -0.5].
  const AbsTensor y = run("Cast", operand({.lo = -0.9, .hi = -0.5}), attrs);
  EXPECT_TRUE(y.hull().may_be_zero());
  EXPECT_EQ(y.hull().lo, 0);
}

// ---- decided truth values ------------------------------------------------------

TEST(Comparisons, AreDecidedWhereRangesDoNotOverlap) {
  const auto decide = [](std::string_view op, const Range& a, const Range& b) {
    const Type type = Type::tensor_of(DType::float32, Dims{2});
    return OneNode(*find_op("", op), 21, {}, {type, type}).range({a, b});
  };
  const Range yes{.lo = 1, .hi = 1, .integer = true}, no{.lo = 0, .hi = 0, .integer = true};
  const Range maybe{.lo = 0, .hi = 1, .integer = true};
  EXPECT_EQ(decide("Greater", {.lo = 2, .hi = 3}, {.lo = 0, .hi = 1}), yes);
  EXPECT_EQ(decide("Greater", {.lo = 0, .hi = 1}, {.lo = 1, .hi = 2}), no);
  EXPECT_EQ(decide("GreaterOrEqual", {.lo = 1, .hi = 3}, {.lo = 0, .hi = 1}), yes);
  EXPECT_EQ(decide("GreaterOrEqual", {.lo = 0, .hi = 1}, {.lo = 1, .hi = 2}), maybe);
  EXPECT_EQ(decide("Less", {.lo = 0, .hi = 0.5}, {.lo = 1, .hi = 2}), yes);
  EXPECT_EQ(decide("LessOrEqual", {.lo = 1, .hi = 2}, {.lo = 0, .hi = 0.5}), no);
  EXPECT_EQ(decide("Equal", point(2), point(2)), yes);
  EXPECT_EQ(decide("Equal", point(2), {.lo = 2, .hi = 3}), maybe);
  EXPECT_EQ(decide("Equal", point(1), {.lo = 2, .hi = 3}), no);
  // A comparison with NaN is false.
  EXPECT_EQ(decide("Greater", {.lo = 2, .hi = 3, .nan = true}, point(0)), maybe);
  EXPECT_EQ(decide("Greater", {.nan = true}, point(0)), no);
  EXPECT_EQ(decide("Equal", {.nan = true}, {.nan = true}), no);
  EXPECT_EQ(decide("Greater", {.lo = 2, .hi = 3, .pinf = true}, {.lo = 0, .hi = 1}), yes);
  EXPECT_EQ(decide("Greater", {.lo = 2, .hi = 3, .ninf = true}, {.lo = 0, .hi = 1}), maybe);
}

TEST(Comparisons, OfAValueWithItself) {
  const Type type = Type::tensor_of(DType::float32, Dims{2, 3});
  const auto decide = [&](std::string_view op, const Range& range) {
    return OneNode(*find_op("", op), 21, {}, {type, type}).ranges({operand(range), operand(range)}).outputs[0].hull();
  };
  EXPECT_EQ(decide("Equal", {.lo = 0, .hi = 9}).lo, 1);
  EXPECT_EQ(decide("Greater", {.lo = 0, .hi = 9}).hi, 0);
  EXPECT_EQ(decide("LessOrEqual", {.lo = 0, .hi = 9}).lo, 1);
  EXPECT_EQ(decide("Equal", {.lo = 0, .hi = 9, .nan = true}).lo, 0);
}

TEST(TanSites, OnlyInFloat16) {
  const auto sites = [](DType dtype, const Range& x) {
    return OneNode(*find_op("", "Tan"), 21, {}, {Type::tensor_of(dtype, Dims{2, 3})}).ranges({operand(x, dtype)}).sites;
  };
  EXPECT_TRUE(sites(DType::float32, {.lo = 0, .hi = 9}).empty());
  EXPECT_TRUE(sites(DType::float16, {.lo = 0, .hi = 9}).at(0).possible);
  EXPECT_FALSE(sites(DType::float16, {.lo = -1.5, .hi = 1.5}).at(0).possible);
}

}  // namespace
}  // namespace finity
