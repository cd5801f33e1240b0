#include "ops/delegate.h"

#include <utility>

#include "base/error.h"
#include "ops/op.h"

namespace finity {

namespace {

Node node_as(const Node& node, const OtherOp& other) {
  const OpDef* op = find_op("", other.name);
  if (op == nullptr || op->eval == nullptr) throw Unsupported(std::string(other.name) + " cannot be evaluated");
  Node result = node;
  result.op = op;
  result.op_type = op->name;
  result.domain = {};
  result.version = other.version;
  return result;
}

std::vector<Datum> run(EvalCall& call, const Node& node, const std::vector<Datum>& inputs) {
  const auto run_body = [&call](BodyId body, std::span<const Datum> in) { return call.run_body(body, in); };
  EvalCall inner(call.graph(), node, inputs, call.rng(), run_body);
  node.op->eval(inner);
  return std::move(inner.outs());
}

}  // namespace

std::vector<Datum> eval_as(EvalCall& call, const OtherOp& other) {
  std::vector<Datum> inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i) inputs.push_back(call.datum(i));
  return run(call, node_as(call.node(), other), inputs);
}

std::vector<Datum> eval_other(EvalCall& call, const OtherOp& other, Attrs attrs, const std::vector<Datum>& inputs,
                              std::size_t outputs) {
  Node node = node_as(Node{}, other);
  node.attrs = std::move(attrs);
  // Evaluation only asks whether an operand is there.
  for (const Datum& input : inputs) node.inputs.push_back(input.present() ? ValueId{0} : ValueId{});
  node.outputs.assign(outputs, ValueId{0});
  return run(call, node, inputs);
}

void infer_as(InferCall& call, const OtherOp& other) {
  const Node node = node_as(call.node(), other);
  if (node.op->infer == nullptr) return;
  std::vector<std::optional<Shape>> values(call.input_count());
  std::vector<InferCall::Operand> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    values[i] = call.shape_value(i);
    operands.push_back({call.in(i), call.value(i), values[i] ? &*values[i] : nullptr});
  }
  const auto infer_body = [&call](BodyId body, std::span<const Type> in) { return call.infer_body(body, in); };
  InferCall inner(call.graph(), node, std::move(operands), infer_body);
  inner.outs() = call.outs();
  node.op->infer(inner);
  call.outs() = std::move(inner.outs());
  call.out_values() = std::move(inner.out_values());
}

}  // namespace finity
