// Tensors that the model states: given, or one value repeated.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Constant --------------------------------------------------------------

Tensor floats(Dims dims, const std::vector<double>& values) {
  return from_elements<double>(DType::float32, std::move(dims), values);
}

// The attribute forms that are not a tensor.
std::optional<Tensor> literal(const Call& call) {
  if (call.has_attr("value_float")) return floats({}, {call.real("value_float")});
  if (call.has_attr("value_floats")) {
    const std::vector<double> values = call.reals("value_floats");
    return floats({static_cast<std::int64_t>(values.size())}, values);
  }
  if (call.has_attr("value_int")) return Tensor::scalar(call.integer("value_int"));
  if (call.has_attr("value_ints")) return Tensor::vector_of(call.integers("value_ints"));
  if (call.has_attr("value_string")) return Tensor::of_strings({}, {call.text("value_string")});
  if (call.has_attr("value_strings")) {
    std::vector<std::string> values = call.texts("value_strings");
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::of_strings({count}, std::move(values));
  }
  return std::nullopt;
}

ConstantPtr tensor_attribute(const Call& call) {
  for (const std::string_view name : {"value", "sparse_value"}) {
    if (ConstantPtr constant = call.constant(name)) return constant;
  }
  return nullptr;
}

void infer_constant(InferCall& call) {
  if (const ConstantPtr constant = tensor_attribute(call)) {
    call.set_type(0, Type::tensor_of(constant->dtype(), constant->dims()));
  } else if (const auto tensor = literal(call)) {
    call.set_type(0, Type::tensor_of(tensor->dtype(), tensor->dims()));
  } else {
    throw Error("has no value");
  }
}

Tensor loaded(const Constant& constant) {
  // Not an Error: a model with absent weights can still be inspected.
  if (!constant.missing().empty()) throw Unsupported("value is missing: " + constant.missing());
  return constant.load();
}

void eval_constant(EvalCall& call) {
  if (const ConstantPtr constant = tensor_attribute(call)) {
    call.out(0, loaded(*constant));
  } else if (auto tensor = literal(call)) {
    call.out(0, std::move(*tensor));
  } else {
    throw Error("has no value");
  }
}

// Large ones only: the engine folds the others.
void range_constant(RangeCall& call) {
  const ConstantPtr constant = tensor_attribute(call);
  if (constant && !constant->missing().empty()) return call.out(0, any_finite(call.out_dtype(0)));
  std::optional<Tensor> tensor = constant ? std::optional(constant->load()) : literal(call);
  if (!tensor) throw Error("has no value");
  settle(call, 0, from_tensor(std::make_shared<const Tensor>(std::move(*tensor)), call.max_cells()));
}

// ---- ConstantOfShape, ConstantFill -----------------------------------------

Tensor repeated(const Tensor& value, const Dims& dims) {
  Tensor result(value.dtype(), dims);
  with_storage(value.dtype(), [&]<class S>() { std::ranges::fill(mutable_stored<S>(result), stored<S>(value)[0]); });
  return result;
}

Shape filled_shape(const Entries& wanted) {
  Shape result;
  for (const Entry& entry : wanted) {
    if (entry.number && *entry.number < 0) throw Error("size " + std::to_string(*entry.number) + " in the shape");
    result.push_back(entry.dim);
  }
  return result;
}

void infer_constant_of_shape(InferCall& call) {
  const ConstantPtr value = call.constant("value");
  call.set_dtype(0, value ? value->dtype() : DType::float32);
  if (const auto wanted = entries(call, {}, 0)) call.set_shape(0, filled_shape(*wanted));
}

void eval_constant_of_shape(EvalCall& call) {
  const ConstantPtr constant = call.constant("value");
  const Tensor value = constant ? loaded(*constant) : floats({1}, {0.0});
  if (value.size() != 1) throw Error("value must have one element");
  call.out(0, repeated(value, sizes_of(filled_shape(entries_of(numbers(call, {}, 0))))));
}

void range_constant_of_shape(RangeCall& call) {
  const ConstantPtr constant = call.constant("value");
  if (!constant) return call.out(0, point(0));
  if (!constant->missing().empty()) return call.out(0, any_finite(call.out_dtype(0)));
  call.out(0, range_of(constant->load()));
}

DType fill_dtype(const Call& call) {
  const auto dtype = dtype_from_code(call.integer("dtype"));
  if (!dtype || *dtype == DType::undefined || *dtype == DType::string) throw Error("dtype is not a number's");
  return *dtype;
}

Entries with_extra_axes(const Call& call, Entries wanted) {
  for (const std::int64_t size : call.integers("extra_shape")) wanted.push_back(Entry::of(size));
  return wanted;
}

// The attribute `shape`, else the input's elements (input_as_shape) or its shape.
std::optional<Entries> fill_entries(const InferCall& call) {
  if (!call.has_input(0)) return entries_of(call.integers("shape"));
  if (call.integer("input_as_shape") != 0) return entries(call, {}, 0);
  if (!call.ranked(0)) return std::nullopt;
  Entries result;
  for (const Dim& dim : call.shape(0)) {
    result.push_back({.number = dim.known() ? std::optional(dim.size) : std::nullopt, .dim = dim});
  }
  return result;
}

void infer_constant_fill(InferCall& call) {
  call.set_dtype(0, fill_dtype(call));
  if (const auto wanted = fill_entries(call)) call.set_shape(0, filled_shape(with_extra_axes(call, *wanted)));
}

void eval_constant_fill(EvalCall& call) {
  const bool from_elements_of_input = call.has_input(0) && call.integer("input_as_shape") != 0;
  std::vector<std::int64_t> sizes = call.integers("shape");
  if (from_elements_of_input) sizes = elements<std::int64_t>(call.in(0));
  else if (call.has_input(0)) sizes = call.in(0).dims();
  const Tensor value = from_elements<double>(fill_dtype(call), {}, std::vector{call.real("value")});
  call.out(0, repeated(value, sizes_of(filled_shape(with_extra_axes(call, entries_of(sizes))))));
}

void range_constant_fill(RangeCall& call) {
  call.out(0, range_of(from_elements<double>(fill_dtype(call), {}, std::vector{call.real("value")})));
}

const OpDef kOps[] = {
    {.identity = {.name = "Constant",
                  .summary = "a tensor given in the model",
                  .signature = "() -> (output: any)",
                  .attrs = "value: tensor; sparse_value: tensor since 11; value_float: float since 12; "
                           "value_floats: floats since 12; value_int: int since 12; value_ints: ints since 12; "
                           "value_string: string since 12; value_strings: strings since 12",
                  .tf = "Const"},
     .meaning = {.infer = infer_constant, .eval = eval_constant},
     .analysis = {.range = range_constant, .vjp = flat},
     .traits = {.exact = true}},
    {.identity = {.name = "ConstantOfShape",
                  .since = 9,
                  .summary = "one value in the given shape, float32 zero by default",
                  .signature = "(input: int64) -> (output: any)",
                  .attrs = "value: tensor",
                  .tf = "Fill"},
     .meaning = {.infer = infer_constant_of_shape, .eval = eval_constant_of_shape},
     .analysis = {.range = range_constant_of_shape, .vjp = flat},
     .traits = {.exact = true}},
    {.identity = {.name = "ConstantFill",
                  .until = 8,
                  .summary = "one value in the given shape, an experimental op of early releases",
                  .signature = "(input?: any) -> (output: any)",
                  .attrs =
                      "value: float = 0.0; dtype: int = 1; shape: ints; extra_shape: ints; input_as_shape: int = 0"},
     .meaning = {.infer = infer_constant_fill, .eval = eval_constant_fill},
     .analysis = {.range = range_constant_fill, .vjp = flat},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> constant_ops() { return kOps; }

}  // namespace finity
