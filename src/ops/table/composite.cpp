#include "ops/table/composite.h"

#include <algorithm>
#include <memory>

#include "ops/elementwise/cast.h"
#include "ops/linear/dot_range.h"
#include "ops/shared/delegate.h"
#include "ops/shared/shape_values.h"
#include "ops/table/dtypes.h"
#include "ops/table/fold.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

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
    for (const Datum& result : call.outs()) {
      results.push_back(result.tensor() != nullptr ? keep_tensor(*result.tensor()) : ValueId{});
    }
    return results;
  }

 private:
  Rng& rng_;
};

// ---- ranges ------------------------------------------------------------------------

struct PartRange {
  PartOperand operand = {};
  const OpDef* computed_by = nullptr;  // null: an operand of the composite or a constant, perhaps moved
};

class PartRanges : public PartWriter<PartRange> {
 public:
  explicit PartRanges(RangeCall& call) : call_(call), format_(call.out_dtype(0)) {}

  // Where the op is looked at in a wider format than the file's, its weights are as the file has them.
  ValueId keep_operand(std::size_t i) {
    const RangeCall::Operand& own = call_.operand(i);
    PartRange value{.operand = {.range = *own.range, .constant = own.constant, .own = static_cast<int>(i)}};
    Type type = *own.type;
    const bool narrower = is_float(type.dtype) && type.dtype != format_ && format_ == DType::float32;
    if (narrower) value.operand.format = type.dtype = format_;
    return keep(std::move(value), std::move(type));
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
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      operands[i] = moves ? at(inputs[i]).operand : used(inputs[i]);
      const int own = operands[i].own;
      operands[i].type = own >= 0 ? call_.operand(static_cast<std::size_t>(own)).type : &type(inputs[i]);
    }
    std::vector<PartResult> made = range_part(call_, part, operands);
    if (reports(part)) report_overflow(part, operands, made.front().range);
    std::vector<ValueId> results;
    for (auto& [range, type] : made) {
      results.push_back(keep(
          {.operand = {.range = std::move(range)}, .computed_by = moves ? at(inputs.front()).computed_by : part.op},
          std::move(type)));
    }
    return results;
  }

 private:
  // What another part takes from it may not have been rounded.
  PartOperand used(ValueId id) const {
    PartOperand operand = at(id).operand;
    if (at(id).computed_by == nullptr || !is_float(operand.range.dtype)) return operand;
    // What is beyond the format's numbers is as wide as it can be.
    const double largest = max_finite(operand.range.dtype);
    for (Range& cell : operand.range.cells) {
      if (!(cell.magnitude() > largest)) cell = outward(operand.range.dtype, cell);
    }
    operand.range.forms.clear();
    operand.range.first_symbol = -1;
    operand.range.relations.clear();
    operand.range.exact.reset();
    return operand;
  }

  // Whether the composite has an overflow of such a part among its hazards.
  bool reports(const OpCall& part) const {
    const auto is_listed = [&](const Hazard& hazard) { return hazard.rule == overflow_rule(*part.op); };
    return part.op->traits.order == OrderKind::sum && std::ranges::any_of(call_.op().analysis.hazards, is_listed);
  }

  // Kernels may round the sum to the format, or keep it in a wider one. Where it overflows there is a report; what
  // follows takes it to be finite, and as large as it is in the wider format.
  void report_overflow(const OpCall& part, std::vector<PartOperand> operands, AbsTensor& range) {
    bool infinite = false;
    for (const PartOperand& operand : operands) infinite |= operand.range.hull().pinf || operand.range.hull().ninf;
    const Range hull = range.hull();
    const bool overflows = (hull.pinf || hull.ninf) && !infinite;
    call_.site(overflow_rule(*part.op), -1, hull, overflows);
    if (!overflows) return;
    const Range wide = wider_hull(part, std::move(operands));
    for (Range& cell : range.cells) {
      cell.pinf = cell.ninf = false;
      if (wide.has_finite()) cell.lo = std::min(cell.lo, wide.lo), cell.hi = std::max(cell.hi, wide.hi);
    }
    range.forms.clear();
    range.first_symbol = -1;
    range.relations.clear();
    range.exact.reset();
  }

  Range wider_hull(const OpCall& part, std::vector<PartOperand> operands) {
    const DType wider = info(operands.front().range.dtype).bits < 32 ? DType::float32 : DType::float64;
    std::deque<Type> types;
    for (PartOperand& operand : operands) {
      types.push_back(*operand.type);
      types.back().dtype = wider;
      operand = {.range = smashed(operand.range), .type = &types.back()};
      operand.range.dtype = wider;
      operand.range.exact.reset();
    }
    const std::size_t sites = call_.sites().size();
    const Range hull = range_part(call_, part, operands).front().range.hull();
    call_.sites().resize(sites);
    return outward(wider, hull);
  }

  std::string_view overflow_rule(const OpDef& part) const {
    return part.analysis.overflow.empty() ? "FN203" : part.analysis.overflow;
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
    AbsTensor range = std::move(parts.at(results[i]).operand.range);
    // Sums that were looked at in a wider format.
    for (Range& cell : range.cells) {
      if (is_float(range.dtype) && cell.magnitude() > max_finite(range.dtype))
        cell = cast_range(cell, DType::float64, range.dtype);
    }
    call.out(i, std::move(range));
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
