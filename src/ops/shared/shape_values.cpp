#include "ops/shared/shape_values.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

Dim plus(const Dim& a, const Dim& b) {
  if (a.size == 0) return b;
  if (b.size == 0) return a;
  if (!a.known() || !b.known()) {
    return Dim::between(saturated_sum(a.least_size(), b.least_size()), saturated_sum(a.most_size(), b.most_size()));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a.size, b.size, &sum)) throw Error("a size overflows");
  return Dim::of(sum);
}

Dim times(const Dim& a, const Dim& b) {
  if (a.size == 1 || b.size == 0) return b;
  if (b.size == 1 || a.size == 0) return a;
  if (!a.known() || !b.known()) {
    return Dim::between(saturated_product(a.least_size(), b.least_size()),
                        saturated_product(a.most_size(), b.most_size()));
  }
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a.size, b.size, &result)) throw Error("a size overflows");
  return Dim::of(result);
}

Dim same(const Dim& a, const Dim& b, std::string_view what) {
  if (a.known() && b.known() && a.size != b.size) {
    throw Error(std::string(what) + " is both " + std::to_string(a.size) + " and " + std::to_string(b.size));
  }
  if (a.known()) return a;
  if (b.known()) return b;
  Dim result = a.symbol.valid() ? a : b;
  result.least = std::max(a.least, b.least);
  result.most = std::min(a.most, b.most);
  return result;
}

Dim some_of(const Dim& dim) { return Dim::between(0, dim.most_size()); }

Dim steps_in(const Dim& room, std::int64_t step) {
  const auto steps = [&](std::int64_t size) { return size / step + (size % step != 0 ? 1 : 0); };
  if (room.known()) return Dim::of(steps(room.size));
  return step == 1 ? room : Dim::between(steps(room.least_size()), steps(room.most_size()));
}

std::optional<Entries> entries(const InferCall& call, std::string_view attr, std::size_t input) {
  if (!call.has_input(input)) return entries_of(call.integers(attr));
  if (const auto known = call.ints(input)) return entries_of(*known);
  const std::optional<Shape> shape = call.shape_value(input);
  if (!shape) return std::nullopt;
  Entries result;
  for (const Dim& dim : *shape) {
    const bool exact = dim.known() || dim.least == dim.most;
    result.push_back({.number = exact ? std::optional(dim.highest()) : std::nullopt, .dim = dim});
  }
  return result;
}

std::optional<std::vector<std::int64_t>> numbers(const std::optional<Entries>& entries) {
  if (!entries) return std::nullopt;
  std::vector<std::int64_t> result;
  for (const Entry& entry : *entries) {
    if (!entry.number) return std::nullopt;
    result.push_back(*entry.number);
  }
  return result;
}

std::vector<std::int64_t> numbers(const EvalCall& call, std::string_view attr, std::size_t input) {
  return call.has_input(input) ? elements<std::int64_t>(call.in(input)) : call.integers(attr);
}

Entries entries_of(std::span<const std::int64_t> numbers) {
  Entries result;
  for (const std::int64_t number : numbers) result.push_back(Entry::of(number));
  return result;
}

bool given(const Call& call, std::string_view attr, std::size_t input) {
  return call.has_input(input) || call.has_attr(attr);
}

std::optional<Shape> shape_elements(const InferCall& call, std::size_t input) {
  const Type& type = call.in(input);
  if (!type.is_tensor() || !is_int(type.dtype) || (type.ranked && type.shape.size() > 1)) return std::nullopt;
  std::optional<Shape> value = call.shape_value(input);
  const auto informative = [](const Dim& dim) { return dim.known() || dim.symbol.valid() || dim.bounded(); };
  if (!value || std::ranges::none_of(*value, informative)) return std::nullopt;
  return value;
}

void keep_shape_value(InferCall& call) {
  if (call.out(0).ranked && call.out(0).shape.size() > 1) return;
  if (auto value = shape_elements(call, 0)) call.set_shape_value(0, std::move(*value));
}

void check_tuples(const Shape& indices, std::size_t rank) {
  if (indices.empty()) throw Error("indices must not be a scalar");
  const Dim& length = indices.back();
  if (length.known() && (length.size < 1 || length.size > static_cast<std::int64_t>(rank))) {
    throw Error("indices are tuples of " + std::to_string(length.size) + " for " + std::to_string(rank) + " axes");
  }
}

Shape unknown_shape(std::size_t rank) { return Shape(rank); }

Shape unknown_shape_of(const Type& whole, std::size_t rank) {
  const std::int64_t least = std::min<std::int64_t>(whole.elements().least_size(), 1);
  return Shape(rank, Dim::between(least, Dim::kNoMost));
}

Shape shape_of(const Tensor& tensor) { return Type::tensor_of(tensor.dtype(), tensor.dims()).shape; }

Dims sizes_of(const Shape& shape) {
  const auto dims = Type::tensor(DType::undefined, shape).dims();
  if (!dims) throw Error("a size of the result does not follow from the operands");
  return *dims;
}

}  // namespace finity
