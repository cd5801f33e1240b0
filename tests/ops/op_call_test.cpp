// Ops called without a graph, and composites, which are called part by part.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "ops/table/composite.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {
namespace {

Tensor floats(Dims dims, const std::vector<double>& values) {
  return from_elements<double>(DType::float32, std::move(dims), values);
}

TEST(OpCall, AnOpIsTypedEvaluatedAndBoundedWithoutAGraph) {
  Attrs attrs;
  attrs.set("axis", std::int64_t{1});
  const OpCall softmax{
      .op = &op_named("Softmax"), .version = 13, .attrs = &attrs, .inputs = Places(1), .outputs = Places(1)};
  const Type type = Type::tensor_of(DType::float32, Dims{2, 3});

  InferCall inferred(softmax, {{.type = type}});
  softmax.op->meaning.infer(inferred);
  EXPECT_EQ(inferred.outs()[0].dims(), (Dims{2, 3}));

  const Datum x[] = {floats({2, 3}, {0, 0, 0, -5, 5, 0})};
  const std::vector<Datum> y = fold(softmax, x);
  const AbsTensor range = uniform(DType::float32, {2, 3}, Range{.lo = -5, .hi = 5});
  const RangeSettings settings;
  Symbols symbols;
  RangeCall ranged(softmax, {{.range = &range, .type = &type}}, {&type}, settings, symbols);
  softmax.op->analysis.range(ranged);
  for (const double value : elements<double>(*y[0].tensor())) {
    EXPECT_TRUE(ranged.outs()[0].hull().contains(value)) << value;
  }
}

TEST(OpCall, WhatIsLeftOutIsToldApart) {
  Places places(4);
  places.omit(2);
  EXPECT_TRUE(places.has(1));
  EXPECT_FALSE(places.has(2));
  EXPECT_TRUE(places.has(3));
  EXPECT_FALSE(places.has(4));
}

TEST(OpCall, BodiesThatAreNotGivenAreAnError) {
  Attrs attrs;
  attrs.set("then_branch", BodyId{0});
  attrs.set("else_branch", BodyId{0});
  const OpCall branch{.op = &op_named("If"), .version = 13, .attrs = &attrs, .inputs = Places(1), .outputs = Places(1)};
  const Datum truth[] = {Tensor::scalar(true)};
  EXPECT_THROW(fold(branch, truth), Error);
}

// That bodies mean something is shown by running them: every op has a case (coverage_test.cpp).
TEST(Composite, WhatALiteralDoesNotSayFollowsFromItsBody) {
  int composites = 0;
  for (const OpDef* op : all_ops()) {
    if (op->meaning.body == nullptr) continue;
    SCOPED_TRACE(op->identity.name);
    EXPECT_NE(op->meaning.infer, nullptr);
    EXPECT_NE(op->meaning.eval, nullptr);
    EXPECT_NE(op->analysis.range, nullptr);
    const Signature& signature = signature_of(*op);
    const bool is_real = signature.outputs.front().type.dtypes[static_cast<std::size_t>(DType::float32)];
    EXPECT_EQ(op->analysis.vjp != nullptr, is_real) << "a derivative where results are real";
    ++composites;
  }
  EXPECT_GT(composites, 0);
}

// A rule that a literal has besides its body is used, and the body for the rest.
TEST(Composite, ARuleOfItsOwnCounts) {
  const OpDef& tanh = op_named("ScaledTanh");
  EXPECT_NE(tanh.meaning.body, nullptr);
  EXPECT_NE(tanh.analysis.range, range_body);
  EXPECT_EQ(tanh.analysis.vjp, body_gradient);
}

TEST(Composite, TypesFollowFromTheBody) {
  const OpCall sum{.op = &op_named("com.microsoft:QLinearAdd"), .inputs = Places(8), .outputs = Places(1)};
  const Type scale = Type::tensor_of(DType::float32, Dims{}), zero = Type::tensor_of(DType::uint8, Dims{});
  const Type rows = Type::tensor_of(DType::uint8, Dims{2, 3}), row = Type::tensor_of(DType::uint8, Dims{3});
  InferCall call(sum, {{rows}, {scale}, {zero}, {row}, {scale}, {zero}, {scale}, {zero}});
  sum.op->meaning.infer(call);
  EXPECT_EQ(call.outs()[0].dims(), (Dims{2, 3}));
}

// Beside a file's narrow weights the op is also looked at in float32.
TEST(Composite, WeightsMayBeNarrowerThanTheFormatAskedFor) {
  const OpCall sum{.op = &op_named("com.microsoft:BiasAdd"), .inputs = Places(3), .outputs = Places(1)};
  const Type wide = Type::tensor_of(DType::float32, Dims{2}), narrow = Type::tensor_of(DType::float16, Dims{2});
  const AbsTensor x = uniform(wide, Range{.lo = -1, .hi = 1}), bias = uniform(narrow, Range{.lo = 2, .hi = 2});
  const RangeSettings settings;
  Symbols symbols;
  RangeCall call(sum, {{&x, &wide}, {&bias, &narrow}, {&x, &wide}}, {&wide}, settings, symbols);
  sum.op->analysis.range(call);
  EXPECT_TRUE(call.outs()[0].hull().contains(4.0));
  EXPECT_LT(call.outs()[0].hull().hi, 4.001);
}

// 1024 + 0.5 + 0.5 is 1025 in float16 where it is rounded once; 1024.5 is rounded to 1024.
TEST(Composite, PartsAreNotRoundedInBetween) {
  const OpCall sum{.op = &op_named("com.microsoft:BiasAdd"), .inputs = Places(3), .outputs = Places(1)};
  const auto half = [](double value) {
    return Datum(from_elements<double>(DType::float16, {1}, std::vector<double>{value}));
  };
  const Datum operands[] = {half(1024), half(0.5), half(0.5)};
  EXPECT_EQ(elements<double>(*fold(sum, operands)[0].tensor()), std::vector<double>{1025});
}

TEST(Composite, AnOmittedOperandLeavesItsPartOut) {
  const OpDef& fast = op_named("com.microsoft:FastGelu");
  const Datum x = floats({3}, {-1, 0.5, 3});
  const Datum both[] = {x, floats({3}, {0, 0, 0})}, one[] = {x};
  const Tensor with = *fold({.op = &fast, .inputs = Places(2), .outputs = Places(1)}, both)[0].tensor();
  const Tensor without = *fold({.op = &fast, .inputs = Places(1), .outputs = Places(1)}, one)[0].tensor();
  EXPECT_EQ(elements<double>(with), elements<double>(without));
}

}  // namespace
}  // namespace finity
