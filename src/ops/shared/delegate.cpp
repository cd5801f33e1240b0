#include "ops/shared/delegate.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/error.h"
#include "ops/table/dtypes.h"
#include "ops/table/fold.h"
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

std::vector<const Type*> result_types(const RangeCall& call) {
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < call.output_count(); ++i) types.push_back(&call.out_type(i));
  return types;
}

// Hazards that the other op's entry lists, which the engine does not look at here. The operands are restricted to
// what is left of them.
using Report = std::function<void(const Site&)>;

void check_hazards(const OpDef& op, std::vector<AbsTensor>& operands, const Report& report) {
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
    report({.rule = hazard.rule,
            .operand = static_cast<int>(hazard.operand),
            .seen = operand.hull(),
            .possible = possible});
    if (possible) operand.exact.reset();
  }
}

// What is found is found at `call`, at operands of its own when they are the same.
Report at(RangeCall& call, bool own_operands) {
  return [&call, own_operands](const Site& site) {
    call.site(site.rule, own_operands ? site.operand : -1, site.seen, site.possible, site.certain);
  };
}

// Asks the rule of `inner`.
void ask(RangeCall& inner, const Report& report) {
  inner.op().analysis.range(inner);
  std::ranges::for_each(inner.sites(), report);
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
  check_hazards(*what.op, ranges, at(call, true));
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    operands[i] = call.operand(i);
    if (!ranges[i].exact && call.in(i).exact) operands[i].value = nullptr;
    operands[i].range = &ranges[i];
  }
  RangeCall inner(std::move(what), std::move(operands), result_types(call), call.settings(), call.symbols());
  ask(inner, at(call, true));
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
  ask(inner, at(call, false));
  call.outs() = std::move(inner.outs());
  call.given() = std::move(inner.given());
}

AbsTensor range_other(RangeCall& call, const OtherOp& other, const Attrs& attrs, const std::vector<AbsTensor>& inputs,
                      const Type& result) {
  OpCall what = call_other(other, attrs, Places(inputs.size()), 1);
  if (what.op->analysis.range == nullptr) return uniform(result, top(result.dtype));
  std::vector<AbsTensor> ranges = inputs;
  check_hazards(*what.op, ranges, at(call, false));
  std::vector<Type> types;
  for (const AbsTensor& range : ranges) types.push_back(type_of(range));
  std::vector<RangeCall::Operand> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = {&ranges[i], &types[i], nullptr, nullptr};
  RangeCall inner(std::move(what), std::move(operands), {&result}, call.settings(), call.symbols());
  ask(inner, at(call, false));
  inner.add_besides();
  return inner.given()[0] ? std::move(inner.outs()[0]) : uniform(result, top(result.dtype));
}

namespace {

// Where a composite reports what its part finds at an operand; nullopt: its own table entry has said it.
std::optional<int> place_in(const RangeCall& call, std::string_view rule, int own) {
  for (const Hazard& hazard : call.op().analysis.hazards) {
    if (hazard.rule != rule) continue;
    if (hazard.quantity != nullptr) return static_cast<int>(hazard.operand);
    if (static_cast<int>(hazard.operand) == own) return std::nullopt;
  }
  return own;
}

// Known operands of ops that every library computes alike.
std::optional<std::vector<PartResult>> folded_part(RangeCall& call, const OpCall& part,
                                                   std::span<const PartOperand> operands) {
  std::vector<Datum> known(operands.size());
  bool floats = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].type == nullptr) continue;
    const std::shared_ptr<const Tensor>& tensor = operands[i].range.exact;
    if (!tensor || operands[i].format != DType::undefined) return std::nullopt;
    known[i] = *tensor;
    floats |= is_float(operands[i].range.dtype);
  }
  if (!folds(*part.op, *part.attrs, floats)) return std::nullopt;
  std::vector<PartResult> results;
  for (const Datum& datum : fold(part, known)) {
    if (datum.tensor() == nullptr) return std::nullopt;
    auto tensor = std::make_shared<const Tensor>(*datum.tensor());
    results.push_back({from_tensor(tensor, call.max_cells()), Type::tensor_of(tensor->dtype(), tensor->dims())});
    results.back().range.exact = std::move(tensor);
  }
  return results;
}

}  // namespace

std::vector<PartResult> range_part(RangeCall& call, const OpCall& part, std::span<const PartOperand> operands) {
  if (auto known = folded_part(call, part, operands)) return std::move(*known);
  std::vector<AbsTensor> ranges(operands.size());
  std::vector<InferCall::Operand> typed(operands.size());
  std::vector<int> places;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    ranges[i] = operands[i].range;
    places.push_back(operands[i].own);
  }
  const auto report = [&](const Site& site) {
    const int own = site.operand >= 0 ? places[static_cast<std::size_t>(site.operand)] : -1;
    if (const std::optional<int> at = place_in(call, site.rule, own)) {
      call.site(site.rule, *at, site.seen, site.possible, site.certain);
    }
  };
  check_hazards(*part.op, ranges, report);
  std::vector<RangeCall::Operand> given(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].type == nullptr) continue;
    typed[i] = {.type = *operands[i].type, .value = ranges[i].exact.get()};
    if (operands[i].format != DType::undefined) typed[i].type.dtype = operands[i].format;
    given[i] = {.range = &ranges[i],
                .type = operands[i].type,
                .constant = operands[i].constant,
                .value = ranges[i].exact.get()};
  }
  InferCall inferred(part, std::move(typed));
  check_dtypes(*part.op, inferred);
  if (part.op->meaning.infer != nullptr) part.op->meaning.infer(inferred);
  std::vector<const Type*> types;
  for (const Type& type : inferred.outs()) types.push_back(&type);
  RangeCall inner(part, std::move(given), types, call.settings(), call.symbols());
  if (part.op->analysis.range != nullptr) ask(inner, report);
  inner.add_besides();
  std::vector<PartResult> results;
  for (std::size_t i = 0; i < inferred.outs().size(); ++i) {
    const Type& type = inferred.outs()[i];
    results.push_back({inner.given()[i] ? std::move(inner.outs()[i]) : uniform(type, top(type.dtype)), type});
  }
  return results;
}

}  // namespace finity
