#include "ops/table/composite.h"

#include <algorithm>
#include <memory>

#include "ops/linear/dot_range.h"
#include "ops/shared/delegate.h"
#include "ops/shared/shape_values.h"
#include "ops/table/dtypes.h"
#include "ops/table/fold.h"
#include "tensor/convert.h"

namespace finity {

namespace {

Type type_of(const Tensor& tensor) { return Type::tensor_of(tensor.dtype(), tensor.dims()); }

// The types of the results; throws when the operands do not fit.
std::vector<Type> checked_results(const EvalCall& call) {
  std::vector<InferCall::Operand> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.has_input(i)) operands[i] = {.type = type_of(call.in(i)), .value = &call.in(i)};
  }
  InferCall inferred(call.description(), std::move(operands));
  check_dtypes(call.op(), inferred);
  call.op().meaning.infer(inferred);
  return std::move(inferred.outs());
}

// ---- types ---------------------------------------------------------------------------

class PartTypes : public PartWriter<std::shared_ptr<const Tensor>> {
 public:
  ValueId constant(Tensor tensor) override {
    Type type = type_of(tensor);
    return keep(std::make_shared<Tensor>(std::move(tensor)), std::move(type));
  }
  const Tensor* known(ValueId id) const override { return at(id).get(); }

 protected:
  std::vector<ValueId> run(const OpCall& part, const std::vector<ValueId>& inputs) override {
    std::vector<InferCall::Operand> operands(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].valid()) operands[i] = {.type = type(inputs[i]), .value = known(inputs[i])};
    }
    InferCall call(part, std::move(operands));
    check_dtypes(*part.op, call);
    if (part.op->meaning.infer != nullptr) part.op->meaning.infer(call);
    std::vector<ValueId> results;
    for (Type& type : call.outs()) results.push_back(keep(nullptr, std::move(type)));
    return results;
  }
};

// ---- evaluation: floats in float64 -----------------------------------------------

Tensor widest(const Tensor& x) {
  return is_float(x.dtype()) ? from_elements<double>(DType::float64, x.dims(), elements<double>(x)) : x;
}

class PartEvaluator : public PartWriter<Tensor> {
 public:
  explicit PartEvaluator(Rng& rng) : rng_(rng) {}

  ValueId keep_tensor(Tensor tensor) {
    Type type = type_of(tensor);
    return keep(std::move(tensor), std::move(type));
  }
  ValueId constant(Tensor tensor) override { return keep_tensor(widest(tensor)); }
  const Tensor* known(ValueId id) const override { return &at(id); }

 protected:
  std::vector<ValueId> run(const OpCall& part, const std::vector<ValueId>& inputs) override {
    std::vector<Datum> operands;
    for (const ValueId id : inputs) operands.push_back(id.valid() ? Datum(at(id)) : Datum());
    EvalCall call(part, operands, rng_);
    part.op->meaning.eval(call);
    std::vector<ValueId> results;
    for (const Datum& result : call.outs()) results.push_back(keep_tensor(*result.tensor()));
    return results;
  }

 private:
  Rng& rng_;
};

// ---- ranges ------------------------------------------------------------------------

struct PartRange {
  PartOperand operand = {};
  const OpDef* computed_by = nullptr;  // null: an operand of the composite or a constant, perhaps moved
  // Infinite or NaN where no operand of the part is.
  bool overflows = false;
  bool invalid = false;
};

class PartRanges : public PartWriter<PartRange> {
 public:
  explicit PartRanges(RangeCall& call) : call_(call), format_(call.out_dtype(0)) {}

  // Where the op is looked at in a wider format than the file's, its weights are as the file has them.
  ValueId keep_operand(std::size_t i) {
    const RangeCall::Operand& own = call_.operand(i);
    PartRange value{.operand = {.range = *own.range, .constant = own.constant, .own = static_cast<int>(i)}};
    const bool narrower = is_float(own.type->dtype) && own.type->dtype != format_ && format_ == DType::float32;
    if (narrower) value.operand.format = format_;
    return keep(std::move(value), *own.type);
  }
  ValueId constant(Tensor tensor) override {
    Type type = type_of(tensor);
    return keep({.operand = {.range = from_tensor(std::make_shared<Tensor>(std::move(tensor)), call_.max_cells())}},
                std::move(type));
  }
  const Tensor* known(ValueId id) const override { return at(id).operand.range.exact.get(); }

 protected:
  std::vector<ValueId> run(const OpCall& part, const std::vector<ValueId>& inputs) override {
    // What is only moved is as it was.
    const bool moves = part.op->traits.elements == ElementSource::moved;
    std::vector<PartOperand> operands(inputs.size());
    bool infinite = false, invalid = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      operands[i] = moves ? at(inputs[i]).operand : used(inputs[i]);
      operands[i].type = &type(inputs[i]);
      const Range hull = operands[i].range.hull();
      infinite |= hull.pinf || hull.ninf;
      invalid |= hull.nan;
    }
    std::vector<ValueId> results;
    for (auto& [range, type] : range_part(call_, part, operands)) {
      const Range hull = range.hull();
      PartRange result{.computed_by = part.op,
                       .overflows = (hull.pinf || hull.ninf) && !infinite,
                       .invalid = hull.nan && !invalid};
      if (moves) result = at(inputs.front());
      result.operand = {.range = std::move(range)};
      results.push_back(keep(std::move(result), std::move(type)));
    }
    return results;
  }

 private:
  // What another part takes from it may not have been rounded. Where it overflows there is a report; what follows is
  // taken to be finite then.
  PartOperand used(ValueId id) {
    PartRange& value = at(id);
    AbsTensor& range = value.operand.range;
    if (value.computed_by == nullptr || !is_float(range.dtype)) return value.operand;
    const std::string_view rule = overflow_rule(*value.computed_by);
    const auto is_listed = [&](const Hazard& hazard) { return hazard.rule == rule; };
    if (value.overflows || std::ranges::any_of(call_.op().analysis.hazards, is_listed)) {
      call_.site(rule, -1, range.hull(), value.overflows);
    }
    if (value.overflows) {
      for (Range& cell : range.cells) {
        cell.pinf = cell.ninf = false;
        cell.nan = cell.nan && !value.invalid;
      }
      value.overflows = false;
    }
    PartOperand operand = value.operand;
    for (Range& cell : operand.range.cells) cell = outward(operand.range.dtype, cell);
    operand.range.forms.clear();
    operand.range.first_symbol = -1;
    operand.range.relations.clear();
    operand.range.exact.reset();
    return operand;
  }

  std::string_view overflow_rule(const OpDef& part) const {
    const std::string_view whole = call_.op().analysis.overflow, own = part.analysis.overflow;
    return !whole.empty() ? whole : !own.empty() ? own : "FN203";
  }

  RangeCall& call_;
  DType format_;
};

}  // namespace

std::vector<ValueId> write_body(const Call& call, std::vector<ValueId> operands, NodeWriter& writer) {
  BuildCall written(call.description(), {.inputs = std::move(operands)}, writer);
  return call.op().meaning.body(written);
}

void infer_body(InferCall& call) {
  PartTypes parts;
  std::vector<ValueId> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!call.has_input(i)) continue;
    const Tensor* value = call.value(i);
    operands[i] = parts.keep(value == nullptr ? nullptr : std::make_shared<Tensor>(*value), call.in(i));
  }
  std::vector<ValueId> results;
  try {
    results = write_body(call, std::move(operands), parts);
  } catch (const Unsupported&) {
    return;  // what the body asks for is not known yet
  }
  for (std::size_t i = 0; i < results.size() && i < call.outs().size(); ++i) {
    if (results[i].valid() && parts.type(results[i]).ranked) call.set_shape(i, parts.type(results[i]).shape);
  }
}

void eval_body(EvalCall& call) {
  const std::vector<Type> types = checked_results(call);
  PartEvaluator parts(call.rng());
  std::vector<ValueId> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.has_input(i)) operands[i] = parts.keep_tensor(widest(call.in(i)));
  }
  const std::vector<ValueId> results = write_body(call, std::move(operands), parts);
  for (std::size_t i = 0; i < results.size() && i < types.size(); ++i) {
    if (!results[i].valid() || !call.has_output(i)) continue;
    const Tensor& result = parts.at(results[i]);
    const bool rounds = is_float(types[i].dtype);
    call.out(i, rounds ? from_elements<double>(types[i].dtype, result.dims(), elements<double>(result)) : result);
  }
}

void range_body(RangeCall& call) {
  PartRanges parts(call);
  std::vector<ValueId> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.has_range(i)) operands[i] = parts.keep_operand(i);
  }
  const std::vector<ValueId> results = write_body(call, std::move(operands), parts);
  for (std::size_t i = 0; i < results.size() && i < call.output_count(); ++i) {
    if (!results[i].valid() || !call.has_output(i)) continue;
    call.out(i, std::move(parts.at(results[i]).operand.range));
  }
}

void body_gradient(BuildCall& call) { call.give_through(call.op().meaning.body(call)); }

void require_bias(const InferCall& call, std::size_t bias, const Type& x) {
  if (!call.ranked(bias) || !x.ranked) return;
  const Shape& shape = call.shape(bias);
  const bool vector = shape.size() == 1 && !x.shape.empty();
  if (vector && (!shape[0].known() || !x.shape.back().known() || shape[0].size == x.shape.back().size)) return;
  throw Error("the bias has shape " + to_string(sizes_of(shape)) + ", which does not fit " +
              to_string(sizes_of(x.shape)));
}

}  // namespace finity
