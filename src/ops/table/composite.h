// Composites: ops whose arithmetic is that of other ops. A body writes the op's results as nodes of those parts, from a
// formula over its operands and attributes (expression.h) or as a function of a BuildCall:
//
//   .meaning = {.infer = infer_biased, .body = formula<"Gelu(Add(X, bias?), approximate='tanh')">}
//
// Evaluation, ranges, gradients and lowerings follow from it, part by part: each engine is a NodeWriter whose values
// are tensors, ranges, nodes of a graph, ... A literal that has, say, a range rule besides its body keeps that rule.
//
// The graph keeps the node: what is found in a part is reported at it. A fused kernel does not round between the parts.
// The reference computes them in float64 and rounds once; ranges let every part be rounded or not.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/table/build_call.h"
#include "ops/table/expression.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"

namespace finity {

// The operator set of the parts.
constexpr int kPartOpset = 21;

// A body of one result. The text is parsed once; a malformed one is a bug in the op table, found by its tests.
template <Text Formula>
std::vector<ValueId> formula(BuildCall& call) {
  static const Expression kParsed = parse_expression(Formula.view());
  return {write_expression(call, kParsed)};
}

// What the table gives an op with a body that has nothing of its own. The operands are checked by its inference first.
void infer_body(InferCall& call);
void eval_body(EvalCall& call);
void range_body(RangeCall& call);
void body_gradient(BuildCall& call);

// Throws Error when operand `bias` has not one element per element of the last axis of x, as broadcasting would allow.
void require_bias(const InferCall& call, std::size_t bias, const Type& x);

// An engine that carries out the parts as they are written. V is what it computes with.
template <class V>
class PartWriter : public NodeWriter {
 public:
  ValueId keep(V value, Type type) {
    values_.emplace_back(std::move(value), std::move(type));
    return {static_cast<std::int32_t>(values_.size() - 1)};
  }
  V& at(ValueId id) { return values_[id.at()].first; }
  const V& at(ValueId id) const { return values_[id.at()].first; }
  const Type& type(ValueId id) const override { return values_[id.at()].second; }

  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                           std::size_t outputs) override {
    return run({.op = &op_named(op),
                .version = kPartOpset,
                .attrs = &attrs,
                .inputs = Places(inputs),
                .outputs = Places(outputs)},
               inputs);
  }
  std::vector<ValueId> repeat(const OpCall& /*call*/, std::vector<ValueId> /*inputs*/, Attrs /*attrs*/) override {
    no_graph();
  }
  BodyId begin_body() override { no_graph(); }
  ValueId add_body_input(const Type& /*type*/) override { no_graph(); }
  void end_body(std::vector<ValueId> /*outputs*/) override { no_graph(); }
  std::vector<ValueId> copy_body(BodyId /*body*/, std::span<const ValueId> /*inputs*/) override { no_graph(); }

 protected:
  virtual std::vector<ValueId> run(const OpCall& part, const std::vector<ValueId>& inputs) = 0;

 private:
  [[noreturn]] static void no_graph() { throw Error("the body of a composite has no subgraphs"); }

  std::deque<std::pair<V, Type>> values_;  // what is pointed to stays where it is
};

// Writes the body of a call with operands that the writer keeps. Invalid: the body does not give this result.
std::vector<ValueId> write_body(const Call& call, std::vector<ValueId> operands, NodeWriter& writer);

}  // namespace finity
