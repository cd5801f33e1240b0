#include "ops/partial_ints.h"

#include <algorithm>

#include "tensor/convert.h"

namespace finity {

namespace {

bool holds_ints(DType dtype) { return is_int(dtype) || dtype == DType::boolean; }

bool is_short_list(const Type& type) { return type.ranked && type.shape.size() <= 1 && holds_ints(type.dtype); }

// What a Dim can say: negative elements, and those that would wrap in a narrow dtype, stay unknown.
bool is_size(DType dtype, std::int64_t value) {
  return value >= 0 && static_cast<std::uint64_t>(value) <= int_max(dtype);
}

}  // namespace

std::optional<std::vector<PartialInt>> partial_ints(const InferCall& call, std::size_t input) {
  if (!is_short_list(call.in(input))) return std::nullopt;
  std::vector<PartialInt> result;
  if (const Tensor* tensor = call.value(input)) {
    for (const std::int64_t element : elements<std::int64_t>(*tensor)) result.push_back(PartialInt::of(element));
    return result;
  }
  const std::optional<Shape> dims = call.shape_value(input);
  if (!dims) return std::nullopt;
  for (const Dim& dim : *dims) result.push_back(PartialInt::of(dim));
  return result;
}

namespace {

void propagate(InferCall& call, PartialFunction f, std::size_t input_count) {
  const DType dtype = call.out(0).dtype;
  if (!holds_ints(dtype)) return;
  std::vector<std::vector<PartialInt>> operands;
  std::size_t count = 1;
  for (std::size_t i = 0; i < input_count; ++i) {
    auto operand = partial_ints(call, i);
    if (!operand) return;
    if (operand->size() != 1) count = operand->size();
    operands.push_back(std::move(*operand));
  }
  Shape result(count);
  std::vector<PartialInt> arguments(operands.size());
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].size() != 1 && operands[i].size() != count) return;
      arguments[i] = operands[i][operands[i].size() == 1 ? 0 : k];
    }
    const PartialInt element = f(arguments);
    if (!element.value) result[k].symbol = element.symbol;
    else if (is_size(dtype, *element.value)) result[k] = Dim::of(*element.value);
  }
  const auto says_something = [](const Dim& dim) { return dim.known() || dim.symbol.valid(); };
  if (std::ranges::any_of(result, says_something)) call.set_shape_value(0, std::move(result));
}

}  // namespace

void propagate_ints(InferCall& call, PartialFunction f) { propagate(call, f, call.input_count()); }

void propagate_first_ints(InferCall& call) {
  propagate(
      call, [](std::span<const PartialInt> x) { return x.front(); }, 1);
}

}  // namespace finity
