#include "ops/movement/move_gradient.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/movement/numbered.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

Attrs with_attr(std::string name, Attr value) { return with_attr(Attrs(), std::move(name), std::move(value)); }

Attrs with_attr(Attrs attrs, std::string name, Attr value) {
  attrs.set(std::move(name), std::move(value));
  return attrs;
}

std::optional<std::vector<std::int64_t>> known_numbers(const BuildCall& call, std::string_view attr,
                                                       std::size_t input) {
  if (!call.has_input(input)) return attr.empty() ? std::vector<std::int64_t>() : call.integers(attr);
  const Tensor* known = call.known(call.in(input));
  if (known == nullptr) return std::nullopt;
  return elements<std::int64_t>(*known);
}

ValueId shape_vector(BuildCall& call, ValueId value) {
  const std::optional<Dims> dims = call.dims(value);
  return dims ? call.ints(*dims) : call.add("Shape", {value});
}

ValueId reshape_to(BuildCall& call, ValueId value, std::vector<std::int64_t> sizes) {
  return call.add("Reshape", {value, call.ints(std::move(sizes))});
}

ValueId reshape_like(BuildCall& call, ValueId value, ValueId like) {
  const std::optional<Dims> dims = call.dims(value);
  if (dims && dims == call.dims(like)) return value;
  // A size of 0 means no elements here, not the size of the operand.
  return call.add("Reshape", {value, shape_vector(call, like)}, with_attr("allowzero", std::int64_t{1}));
}

ValueId transpose(BuildCall& call, ValueId value, std::vector<std::int64_t> order) {
  if (std::ranges::is_sorted(order)) return value;
  return call.add("Transpose", {value}, with_attr("perm", std::move(order)));
}

ValueId sum_all(BuildCall& call, ValueId value, ValueId like) {
  return reshape_like(call, call.add("ReduceSum", {value}, with_attr("keepdims", std::int64_t{0})), like);
}

void reshape_gradient(BuildCall& call) {
  if (call.wanted(0)) call.give(0, reshape_like(call, call.grad(0), call.in(0)));
}

namespace {

ValueId zero_numbers_like(BuildCall& call, ValueId value) {
  const std::int64_t zero[] = {0};
  return call.add("ConstantOfShape", {shape_vector(call, value)},
                  with_attr("value", make_constant(from_elements<std::int64_t>(DType::int64, {1}, zero))));
}

ValueId element_count(BuildCall& call, ValueId value) {
  const std::optional<Dims> dims = call.dims(value);
  if (!dims) return call.add("Size", {value});
  return call.scalar(static_cast<double>(finity::element_count(*dims)), DType::int64);
}

// One slot for each element and, before them, one for what is not an element.
ValueId empty_slots(BuildCall& call, ValueId past_last, DType dtype) {
  const double zero[] = {0};
  return call.add("ConstantOfShape", {reshape_to(call, past_last, {1})},
                  with_attr("value", make_constant(from_elements<double>(dtype, {1}, zero))));
}

}  // namespace

namespace {

// Elements are numbered in a format that the op takes.
void scatter_numbered(BuildCall& call, std::size_t operand, const std::vector<std::size_t>& others, const Attrs* attrs,
                      DType format) {
  if (!call.wanted(operand)) return;
  const ValueId x = call.in(operand);
  const ValueId one = call.scalar(1, DType::int64);
  const ValueId past_last = call.sum(element_count(call, x), one);
  std::vector<ValueId> inputs = call.inputs();
  // Numbers start at 1: the zeros that some ops fill in are no element.
  inputs[operand] = call.cast(reshape_like(call, call.add("Range", {one, past_last, one}), x), format);
  for (const std::size_t other : others) {
    if (other != operand && call.has_input(other)) inputs[other] = zero_numbers_like(call, call.in(other));
  }
  const std::vector<ValueId> moved =
      call.writer().repeat(call.description(), std::move(inputs), attrs != nullptr ? *attrs : call.attrs());
  std::vector<Numbered> parts;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (moved[i].valid() && call.has_grad(i)) parts.push_back({moved[i], call.grad(i)});
  }
  call.give(operand, added_up(call, x, parts));
}

}  // namespace

ValueId added_up(BuildCall& call, ValueId x, const std::vector<Numbered>& parts) {
  const ValueId past_last = call.sum(element_count(call, x), call.scalar(1, DType::int64));
  ValueId slots = empty_slots(call, past_last, call.type(x).dtype);
  for (const Numbered& part : parts) {
    const ValueId places = call.cast(reshape_to(call, part.numbers, {-1}), DType::int64);
    slots = call.add("ScatterElements", {slots, places, reshape_to(call, part.arriving, {-1})},
                     with_attr("reduction", std::string("add")));
  }
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  return reshape_like(call, call.add("Slice", {slots, call.ints({1}), call.ints({kEnd}), call.ints({0})}), x);
}

void scatter_back(BuildCall& call, std::size_t operand, const std::vector<std::size_t>& others, const Attrs* attrs) {
  scatter_numbered(call, operand, others, attrs, DType::int64);
}

void movement_gradient(BuildCall& call) { scatter_back(call, 0); }
void float_movement_gradient(BuildCall& call) { scatter_numbered(call, 0, {}, nullptr, DType::float64); }

ValueId gather_gradient(BuildCall& call, ValueId arriving, ValueId data, ValueId indices, std::int64_t axis) {
  const std::size_t rank = call.rank(data), added = call.rank(indices), at = normalize_axis(axis, rank);
  // Index tuples speak of the first axes, so the axis comes to the front and goes back in the end.
  std::vector<std::int64_t> to_front, data_order, back;
  for (std::size_t i = 0; i < added; ++i) to_front.push_back(static_cast<std::int64_t>(at + i));
  for (std::size_t i = 0; i + 1 < rank; ++i) to_front.push_back(static_cast<std::int64_t>(i < at ? i : i + added));
  data_order.push_back(static_cast<std::int64_t>(at));
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != at) data_order.push_back(static_cast<std::int64_t>(i));
    back.push_back(static_cast<std::int64_t>(i == at ? 0 : i < at ? i + 1 : i));
  }
  const ValueId zeros = transpose(call, call.zeros_like(data), data_order);
  const ValueId tuples = call.add("Unsqueeze", {call.cast(indices, DType::int64), call.ints({-1})});
  const ValueId sums = call.add("ScatterND", {zeros, tuples, transpose(call, arriving, std::move(to_front))},
                                with_attr("reduction", std::string("add")));
  return transpose(call, sums, std::move(back));
}

}  // namespace finity
