#include "ops/shared/delegate.h"

#include <utility>

#include "base/error.h"
#include "ops/table/dtypes.h"
#include "ops/table/op.h"

namespace finity {

namespace {

const OpDef& evaluated_op(const OtherOp& other) {
  const OpDef* op = find_op("", other.name);
  if (op == nullptr || op->meaning.eval == nullptr) throw Unsupported(std::string(other.name) + " cannot be evaluated");
  return *op;
}

// The use of an op seen as one of another op.
OpCall as_other(OpCall call, const OtherOp& other) {
  call.op = &evaluated_op(other);
  call.version = other.version;
  return call;
}

OpCall call_other(const OtherOp& other, const Attrs& attrs, Places inputs, std::size_t outputs) {
  return {.op = &evaluated_op(other),
          .version = other.version,
          .attrs = &attrs,
          .inputs = std::move(inputs),
          .outputs = Places(outputs)};
}

std::vector<Datum> run(EvalCall& call, OpCall what, const std::vector<Datum>& inputs) {
  const auto run_body = [&call](BodyId body, std::span<const Datum> in) { return call.run_body(body, in); };
  EvalCall inner(std::move(what), inputs, call.rng(), run_body);
  inner.op().meaning.eval(inner);
  return std::move(inner.outs());
}

// Asks the rule of `inner`; what it finds is found at `call`, at operands of its own when they are the same.
void ask(RangeCall& call, RangeCall& inner, bool own_operands) {
  inner.op().analysis.range(inner);
  for (const Site& site : inner.sites()) {
    call.site(site.rule, own_operands ? site.operand : -1, site.seen, site.possible, site.certain);
  }
}

std::vector<const Type*> result_types(const RangeCall& call) {
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < call.output_count(); ++i) types.push_back(&call.out_type(i));
  return types;
}

// Hazards that the other op's entry lists, which the engine does not look at here. The operands are restricted to
// what is left of them.
void check_hazards(RangeCall& call, const OpDef& op, std::vector<AbsTensor>& operands, bool own_operands) {
  for (const Hazard& hazard : op.analysis.hazards) {
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
  return run(call, as_other(call.description(), other), inputs);
}

std::vector<Datum> eval_other(EvalCall& call, const OtherOp& other, const Attrs& attrs,
                              const std::vector<Datum>& inputs, std::size_t outputs) {
  Places given(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) given.omit(i);
  }
  return run(call, call_other(other, attrs, std::move(given), outputs), inputs);
}

void infer_as(InferCall& call, const OtherOp& other) {
  std::vector<std::optional<Shape>> values(call.input_count());
  std::vector<InferCall::Operand> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    values[i] = call.shape_value(i);
    operands.push_back({call.in(i), call.value(i), values[i] ? &*values[i] : nullptr});
  }
  const auto infer_body = [&call](BodyId body, std::span<const Type> in) { return call.infer_body(body, in); };
  InferCall inner(as_other(call.description(), other), std::move(operands), infer_body);
  if (inner.op().meaning.infer == nullptr) return;
  inner.outs() = call.outs();
  inner.op().meaning.infer(inner);
  call.outs() = std::move(inner.outs());
  call.out_values() = std::move(inner.out_values());
}

void range_as(RangeCall& call, const OtherOp& other, const Attrs* attrs) {
  OpCall what = as_other(call.description(), other);
  if (attrs != nullptr) what.attrs = attrs;
  if (what.op->analysis.range == nullptr) return;
  std::vector<AbsTensor> ranges(call.input_count());
  std::vector<RangeCall::Operand> operands(call.input_count());
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_range(i)) ranges[i] = call.in(i);
  }
  check_hazards(call, *what.op, ranges, true);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    operands[i] = call.operand(i);
    if (!ranges[i].exact && call.in(i).exact) operands[i].value = nullptr;
    operands[i].range = &ranges[i];
  }
  RangeCall inner(std::move(what), std::move(operands), result_types(call), call.settings(), call.symbols());
  ask(call, inner, true);
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

void range_as(RangeCall& call, const OtherOp& other, const Attrs& attrs,
              const std::vector<std::optional<AbsTensor>>& inputs) {
  OpCall what = as_other(call.description(), other);
  what.attrs = &attrs;
  what.inputs = Places(inputs.size());
  std::vector<Type> types(inputs.size());
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) {
      what.inputs.omit(i);
      continue;
    }
    types[i] = type_of(*inputs[i]);
    operands[i] = {&*inputs[i], &types[i], nullptr, inputs[i]->exact.get()};
  }
  RangeCall inner(std::move(what), std::move(operands), result_types(call), call.settings(), call.symbols());
  ask(call, inner, false);
  call.outs() = std::move(inner.outs());
  call.given() = std::move(inner.given());
}

AbsTensor range_other(RangeCall& call, const OtherOp& other, const Attrs& attrs, const std::vector<AbsTensor>& inputs,
                      const Type& result) {
  OpCall what = call_other(other, attrs, Places(inputs.size()), 1);
  if (what.op->analysis.range == nullptr) return uniform(result, top(result.dtype));
  std::vector<AbsTensor> ranges = inputs;
  check_hazards(call, *what.op, ranges, false);
  std::vector<Type> types;
  for (const AbsTensor& range : ranges) types.push_back(type_of(range));
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = {&ranges[i], &types[i], nullptr, nullptr};
  RangeCall inner(std::move(what), std::move(operands), {&result}, call.settings(), call.symbols());
  ask(call, inner, false);
  inner.add_besides();
  return inner.given()[0] ? std::move(inner.outs()[0]) : uniform(result, top(result.dtype));
}

AbsTensor range_part(RangeCall& call, const OpCall& part, std::vector<std::optional<PartOperand>> inputs) {
  std::vector<AbsTensor> ranges(inputs.size());
  std::vector<Type> types(inputs.size());
  std::vector<InferCall::Operand> typed(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) ranges[i] = std::move(inputs[i]->range);
  }
  check_hazards(call, *part.op, ranges, false);
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const RangeCall::Operand* own = inputs[i]->own;
    types[i] = own != nullptr && own->type != nullptr ? *own->type : type_of(ranges[i]);
    typed[i] = {.type = types[i], .value = ranges[i].exact.get()};
    operands[i] = {.range = &ranges[i],
                   .type = &types[i],
                   .constant = own != nullptr ? own->constant : nullptr,
                   .value = ranges[i].exact.get()};
  }
  InferCall inferred(part, std::move(typed));
  check_dtypes(*part.op, inferred);
  if (part.op->meaning.infer != nullptr) part.op->meaning.infer(inferred);
  const Type& result = inferred.outs().front();
  RangeCall inner(part, std::move(operands), {&result}, call.settings(), call.symbols());
  ask(call, inner, false);
  inner.add_besides();
  return inner.given()[0] ? std::move(inner.outs()[0]) : uniform(result, top(result.dtype));
}

}  // namespace finity
