#include "ops/table/composite.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "ops/linear/dot_range.h"
#include "ops/shared/delegate.h"
#include "ops/shared/shape_values.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

struct Composite {
  std::string_view domain;
  std::string_view name;
  std::string_view body;
};

constexpr std::string_view kMicrosoft = "com.microsoft";

constexpr Composite kComposites[] = {
    {kMicrosoft, "Gelu", "Gelu(X)"},
    {kMicrosoft, "FastGelu", "Gelu(Add(X, bias?), approximate='tanh')"},
    {kMicrosoft, "BiasGelu", "Gelu(Add(A, B))"},
    {kMicrosoft, "QuickGelu", "Swish(X, alpha=alpha)"},
    {kMicrosoft, "BiasAdd", "Add(Add(X, bias), skip)"},
    {kMicrosoft, "GemmFastGelu", "Gelu(Add(MatMul(X, W), bias?), approximate='tanh')"},
};

using Bodies = std::map<std::pair<std::string_view, std::string_view>, Expression>;

Bodies parse_all() {
  Bodies bodies;
  for (const Composite& composite : kComposites) {
    bodies.emplace(std::pair(composite.domain, composite.name), parse_expression(composite.body));
  }
  return bodies;
}

const Expression& body_at(const Call& call) {
  const Expression* body = body_of(call.op());
  if (body == nullptr) throw Error("it has no body");
  return *body;
}

DType first_float(const EvalCall& call) {
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_input(i) && is_float(call.in(i).dtype())) return call.in(i).dtype();
  }
  throw Error("it has no float operand");
}

void check_operands(const EvalCall& call) {
  std::vector<InferCall::Operand> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.has_input(i)) operands[i].type = Type::tensor_of(call.in(i).dtype(), call.in(i).dims());
  }
  InferCall checked(call.description(), std::move(operands));
  call.op().meaning.infer(checked);
}

}  // namespace

const Expression* body_of(const OpDef& op) {
  static const Bodies kBodies = parse_all();
  const auto found = kBodies.find({op.identity.domain, op.identity.name});
  return found == kBodies.end() ? nullptr : &found->second;
}

void require_bias(const InferCall& call, std::size_t bias, const Type& x) {
  if (!call.ranked(bias) || !x.ranked) return;
  const Shape& shape = call.shape(bias);
  const bool vector = shape.size() == 1 && !x.shape.empty();
  if (vector && (!shape[0].known() || !x.shape.back().known() || shape[0].size == x.shape.back().size)) return;
  throw Error("the bias has shape " + to_string(sizes_of(shape)) + ", which does not fit " +
              to_string(sizes_of(x.shape)));
}

void eval_body(EvalCall& call) {
  check_operands(call);
  BodyEngine<Tensor> engine;
  engine.operand = [&](std::size_t i) {
    const Tensor& x = call.in(i);
    return is_float(x.dtype()) ? from_elements<double>(DType::float64, x.dims(), elements<double>(x)) : x;
  };
  engine.number = [](double number) { return from_elements<double>(DType::float64, {}, std::vector<double>{number}); };
  engine.part = [&](const OpCall& part, const std::vector<std::optional<Tensor>>& inputs) {
    std::vector<Datum> operands;
    for (const std::optional<Tensor>& input : inputs) operands.push_back(input ? Datum(*input) : Datum());
    EvalCall inner(part, operands, call.rng());
    part.op->meaning.eval(inner);
    return *inner.outs().front().tensor();
  };
  const Tensor result = carry_out(call, body_at(call), engine).value();
  call.out(0, from_elements<double>(first_float(call), result.dims(), elements<double>(result)));
}

void range_body(RangeCall& call) {
  AbsTensor last;
  BodyEngine<PartOperand> engine;
  engine.operand = [&](std::size_t i) { return PartOperand{call.in(i), &call.operand(i)}; };
  engine.number = [&](double number) {
    const DType dtype = call.out_dtype(0);
    return PartOperand{uniform(dtype, Dims{}, outward(dtype, from_bounds(dtype, number, number)))};
  };
  engine.part = [&](const OpCall& part, const std::vector<std::optional<PartOperand>>& inputs) {
    last = range_part(call, part, inputs);
    // What another part takes from it may not have been rounded.
    AbsTensor loose = last;
    for (Range& cell : loose.cells) cell = outward(loose.dtype, cell);
    loose.forms.clear();
    loose.first_symbol = -1;
    loose.relations.clear();
    return PartOperand{std::move(loose)};
  };
  if (carry_out(call, body_at(call), engine)) call.out(0, std::move(last));
}

void body_gradient(BuildCall& call) {
  const ValueId results[] = {write_expression(call, body_at(call))};
  call.give_through(results);
}

}  // namespace finity
