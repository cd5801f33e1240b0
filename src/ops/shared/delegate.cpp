#include "ops/shared/delegate.h"

#include <utility>

#include "base/error.h"
#include "ops/table/op.h"

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

// Hazards that the other op's entry lists, which the engine does not look at here. The operands are restricted to
// what is left of them.
void check_hazards(RangeCall& call, const OpDef& op, std::vector<AbsTensor>& operands, bool own_operands) {
  for (const Hazard& hazard : op.hazards) {
    if (hazard.quantity != nullptr || hazard.operand >= operands.size()) continue;
    AbsTensor& operand = operands[hazard.operand];
    const UnsafeSet unsafe = hazard.unsafe(operand.dtype);
    bool possible = false;
    for (Range& cell : operand.cells) {
      if (!meets(cell, unsafe)) continue;
      possible = true;
      cell = without(cell, unsafe, operand.dtype);
    }
    const Range seen = operand.hull();
    call.site(hazard.rule, own_operands ? static_cast<int>(hazard.operand) : -1, seen, possible);
    if (possible) operand.exact.reset();
  }
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

void range_as(RangeCall& call, const OtherOp& other, const Attrs* attrs) {
  Node node = node_as(call.node(), other);
  if (attrs != nullptr) node.attrs = *attrs;
  if (node.op->range == nullptr) return;
  std::vector<AbsTensor> ranges(call.input_count());
  std::vector<RangeCall::Operand> operands(call.input_count());
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_range(i)) ranges[i] = call.in(i);
  }
  check_hazards(call, *node.op, ranges, true);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    operands[i] = call.operand(i);
    if (!ranges[i].exact && call.in(i).exact) operands[i].value = nullptr;
    operands[i].range = &ranges[i];
  }
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < call.output_count(); ++i) types.push_back(&call.out_type(i));
  RangeCall inner(call.graph(), node, std::move(operands), std::move(types), call.settings(), call.symbols(), nullptr);
  node.op->range(inner);
  for (const Site& site : inner.sites()) call.site(site.rule, site.operand, site.seen, site.possible, site.certain);
  call.outs() = std::move(inner.outs());
  call.given() = std::move(inner.given());
  call.all_besides() = std::move(inner.all_besides());
}

namespace {

Type type_of(const AbsTensor& range) {
  Type type = Type::tensor(range.dtype);
  type.ranked = range.ranked;
  for (const std::int64_t size : range.sizes) type.shape.push_back(size >= 0 ? Dim::of(size) : Dim{});
  return type;
}

}  // namespace

void range_as(RangeCall& call, const OtherOp& other, Attrs attrs, const std::vector<std::optional<AbsTensor>>& inputs) {
  Node node = node_as(call.node(), other);
  node.attrs = std::move(attrs);
  node.inputs.clear();
  std::vector<Type> types(inputs.size());
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(inputs[i] ? ValueId{0} : ValueId{});
    if (!inputs[i]) continue;
    types[i] = type_of(*inputs[i]);
    operands[i] = {&*inputs[i], &types[i], nullptr, inputs[i]->exact.get()};
  }
  std::vector<const Type*> results;
  for (std::size_t i = 0; i < call.output_count(); ++i) results.push_back(&call.out_type(i));
  RangeCall inner(call.graph(), node, std::move(operands), std::move(results), call.settings(), call.symbols(),
                  nullptr);
  node.op->range(inner);
  for (const Site& site : inner.sites()) call.site(site.rule, -1, site.seen, site.possible, site.certain);
  call.outs() = std::move(inner.outs());
  call.given() = std::move(inner.given());
}

AbsTensor range_other(RangeCall& call, const OtherOp& other, Attrs attrs, const std::vector<AbsTensor>& inputs,
                      const Type& result) {
  Node node = node_as(Node{}, other);
  node.attrs = std::move(attrs);
  node.outputs = {ValueId{0}};
  node.inputs.assign(inputs.size(), ValueId{0});
  if (node.op->range == nullptr) return uniform(result, top(result.dtype));
  std::vector<AbsTensor> ranges = inputs;
  check_hazards(call, *node.op, ranges, false);
  std::vector<Type> types;
  for (const AbsTensor& range : ranges) types.push_back(type_of(range));
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = {&ranges[i], &types[i], nullptr, nullptr};
  RangeCall inner(call.graph(), node, std::move(operands), {&result}, call.settings(), call.symbols(), nullptr);
  node.op->range(inner);
  for (const Site& site : inner.sites()) call.site(site.rule, -1, site.seen, site.possible, site.certain);
  inner.add_besides();
  return inner.given()[0] ? std::move(inner.outs()[0]) : uniform(result, top(result.dtype));
}

}  // namespace finity
