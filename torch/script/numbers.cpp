// Element types, sizes, numbers that are read from tensors, and new tensors.
#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"
#include "torch/script/tables.h"

namespace finity {

namespace {

// The overloads take a dtype, another tensor, or a device; only the first two change anything.
void to(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.has("other")) return call.give(call.cast(x, call.dtype(call.tensor("other"))));
  if (!call.has("dtype")) return call.give(x);
  call.give(call.cast(x, call.element_type("dtype")));
}

void size(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const ValueId shape = call.add("Shape", {x});
  if (!call.has("dim")) return call.give(shape);
  const ValueId axis = call.vector_of({call.integer("dim")});
  call.give(call.add("Squeeze", {call.add("Gather", {shape, axis}, {{"axis", std::int64_t{0}}})}));
}

// Of numbers that are computed together.
void element(ScriptCall& call) {
  const ScriptItem& list = call.first();
  if (!list.id.valid() || list.is_stacked) throw Unsupported("asks for a place of a list that is not known");
  call.give(call.add("Gather", {list.id, call.from(call.argument("idx"))}, {{"axis", std::int64_t{0}}}));
}

void rank_of(ScriptCall& call) {
  call.give(call.add("Squeeze", {call.add("Shape", {call.add("Shape", {call.tensor("self")})})}));
}

void length_of(ScriptCall& call) {
  const ValueId first = call.constant(Tensor::scalar(std::int64_t{0}));
  call.give(call.add("Gather", {call.add("Shape", {call.operand()}), first}));
}

// Of the rounds of range(start, end, step).
void number_of_round(ScriptCall& call) {
  const ValueId steps = call.add("Mul", {call.tensor("index"), call.tensor("step")});
  call.give(call.add("Add", {call.tensor("start"), steps}));
}

void rounds_of_range(ScriptCall& call) {
  if (call.integer("step") != 1) throw Unsupported("counts in steps");
  const ValueId apart = call.add("Sub", {call.tensor("hi"), call.tensor("lo")});
  call.give(call.add("Max", {apart, call.constant(Tensor::scalar(std::int64_t{0}))}));
}

void count_of(ScriptCall& call) { call.give(call.add("Size", {call.tensor("self")})); }

// A tensor with one element, or a number, as a number.
ValueId single(ScriptCall& call, ValueId x) {
  if (call.is_ranked(x) && call.rank(x) == 0) return x;
  return call.add("Reshape", {x, call.constant(Tensor(DType::int64, {0}))});
}

template <DType To>
void number_of(ScriptCall& call) {
  call.give(call.cast(single(call, call.operand()), To));
}

void item(ScriptCall& call) {
  const ValueId x = single(call, call.operand());
  const DType dtype = call.dtype(x);
  call.give(is_float(dtype) ? call.cast(x, kScriptFloat) : is_int(dtype) ? call.cast(x, DType::int64) : x);
}

// ---- new tensors --------------------------------------------------------------------------------------------

ValueId filled(ScriptCall& call, const ScriptItem& value, DType dtype, ValueId shape) {
  return call.add("Expand", {call.as(value, call.has("dtype") ? call.element_type("dtype") : dtype), shape});
}

template <int Number>
void filled_like(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(filled(call, {.constant = std::int64_t{Number}}, call.dtype(x), call.add("Shape", {x})));
}

void full_like(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  call.give(filled(call, call.argument("fill_value"), call.dtype(x), call.add("Shape", {x})));
}

template <int Number>
void new_filled(ScriptCall& call) {
  const DType dtype = call.has("self") ? call.dtype(call.tensor("self")) : DType::float32;
  call.give(filled(call, {.constant = std::int64_t{Number}}, dtype, call.int_vector("size")));
}

void new_full(ScriptCall& call) {
  const ScriptItem& value = call.argument("fill_value");
  const DType own = call.dtype(call.from(value));
  const DType dtype = call.has("self") ? call.dtype(call.tensor("self")) : own == kScriptFloat ? DType::float32 : own;
  call.give(filled(call, value, dtype, call.int_vector("size")));
}

void count_up(ScriptCall& call) {
  const auto bound = [&](const char* name, std::int64_t otherwise) {
    return call.has(name) ? call.argument(name) : ScriptItem{.constant = otherwise};
  };
  const std::vector<ValueId> ids = call.alike({bound("start", 0), bound("end", 0), bound("step", 1)});
  const ValueId numbers = call.add("Range", ids);
  const DType dtype = call.dtype(numbers) == kScriptFloat ? DType::float32 : call.dtype(numbers);
  call.give(call.cast(numbers, call.has("dtype") ? call.element_type("dtype") : dtype));
}

constexpr ScriptLowering kEntries[] = {
    {"to", to},
    {"type_as", to},
    {"__getitem__", element},
    {"size", size},
    {"dim", rank_of},
    {"__derive_index", number_of_round},
    {"__range_length", rounds_of_range},
    {"numel", count_of},
    {"len", length_of},
    {"Int", number_of<DType::int64>},
    {"IntImplicit", number_of<DType::int64>},
    {"Float", number_of<kScriptFloat>},
    {"FloatImplicit", number_of<kScriptFloat>},
    {"Bool", number_of<DType::boolean>},
    {"ScalarImplicit", item},
    {"item", item},
    {"zeros_like", filled_like<0>},
    {"ones_like", filled_like<1>},
    {"full_like", full_like},
    {"zeros", new_filled<0>},
    {"ones", new_filled<1>},
    {"full", new_full},
    {"new_zeros", new_filled<0>},
    {"new_ones", new_filled<1>},
    {"new_full", new_full},
    {"arange", count_up},
};

}  // namespace

std::span<const ScriptLowering> script_numbers() { return kEntries; }

}  // namespace finity
