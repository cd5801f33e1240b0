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

// Every word of every body means something, and every part can be evaluated, bounded and derived.
void check_words(const Call& call, const Expression& body) {
  if (body.number) return;
  if (!body.is_part) {
    const bool means_something = operand_named(call, body.name) || signature_of(call.op()).attr(body.name) != nullptr;
    EXPECT_TRUE(means_something) << body.name;
    return;
  }
  const OpDef& part = op_named(body.name);
  EXPECT_NE(part.meaning.eval, nullptr) << body.name;
  EXPECT_NE(part.analysis.range, nullptr) << body.name;
  EXPECT_NE(part.analysis.vjp, nullptr) << body.name;
  for (const auto& [name, given] : body.attrs) EXPECT_NE(signature_of(part).attr(name), nullptr) << name;
  for (const Expression& input : body.inputs) check_words(call, input);
}

TEST(Composite, EveryBodyIsMadeOfOpsThatAreThere) {
  int composites = 0;
  for (const OpDef* op : all_ops()) {
    const Expression* body = body_of(*op);
    EXPECT_EQ(body != nullptr, op->analysis.range == range_body) << op->identity.name;
    if (body == nullptr) continue;
    SCOPED_TRACE(op->identity.name);
    check_words(Call(OpCall{.op = op}), *body);
    ++composites;
  }
  EXPECT_GT(composites, 0);
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
