// Composites: ops whose arithmetic is that of other ops, written as a formula over
// their operands (expression.h). Evaluation, ranges, gradients and lowerings of a
// composite are those of its parts, so its literal names the functions below and the
// list in composite.cpp has its body:
//
//   .meaning = {.infer = infer_same_shape, .eval = eval_body},
//   .analysis = {.range = range_body, .vjp = body_gradient}
//
// The graph keeps the node: what is found in a part is reported at it. A fused kernel
// does not round between the parts. The reference computes them in float64 and rounds
// once; ranges let every part be rounded or not.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/table/build_call.h"
#include "ops/table/expression.h"
#include "ops/table/range_call.h"

namespace finity {

// Parsed once per op; null when the op is not a composite.
const Expression* body_of(const OpDef& op);

// The operator set of the parts.
constexpr int kPartOpset = 21;

// The operands are checked by the op's inference first.
void eval_body(EvalCall& call);
void range_body(RangeCall& call);
void body_gradient(BuildCall& call);

// Throws Error when operand `bias` has not one element per element of the last axis of x, as broadcasting would allow.
void require_bias(const InferCall& call, std::size_t bias, const Type& x);

// How an engine carries out a body: V is a tensor, a range, ...
template <class V>
struct BodyEngine {
  std::function<V(std::size_t operand)> operand = {};
  std::function<V(double number)> number = {};
  // An omitted operand is nullopt.
  std::function<V(const OpCall& part, const std::vector<std::optional<V>>& inputs)> part = {};
};

// Nullopt: an operand that is omitted.
template <class V>
std::optional<V> carry_out(const Call& call, const Expression& body, const BodyEngine<V>& engine) {
  if (body.number) return engine.number(*body.number);
  if (!body.is_part) {
    const std::optional<std::size_t> operand = operand_named(call, body.name);
    if (!operand) return engine.number(own_number(call, body.name).value());
    return call.has_input(*operand) ? std::optional<V>(engine.operand(*operand)) : std::nullopt;
  }
  std::vector<std::optional<V>> inputs;
  Places places(body.inputs.size());
  for (const Expression& input : body.inputs) {
    inputs.push_back(carry_out(call, input, engine));
    if (inputs.back()) continue;
    if (input.may_be_omitted) return inputs.front();
    places.omit(inputs.size() - 1);
  }
  const Attrs attrs = attrs_of_part(call, body);
  return engine.part(
      {.op = &op_named(body.name), .version = kPartOpset, .attrs = &attrs, .inputs = places, .outputs = Places(1)},
      inputs);
}

}  // namespace finity
