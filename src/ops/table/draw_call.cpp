#include "ops/table/draw_call.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tensor/convert.h"

namespace finity {

namespace {

template <class T>
const T* given(const Attrs& attrs, std::string_view name) {
  const Attr* found = attrs.find(name);
  return found == nullptr ? nullptr : std::get_if<T>(found);
}

}  // namespace

std::int64_t DrawCall::integer(std::string_view name, std::int64_t fallback) {
  const auto* value = given<std::int64_t>(attrs(), name);
  return value == nullptr ? fallback : *value;
}

DrawCall::Ints DrawCall::integers(std::string_view name) {
  const auto* value = given<Ints>(attrs(), name);
  return value == nullptr ? Ints() : *value;
}

std::string DrawCall::text(std::string_view name) {
  const auto* value = given<std::string>(attrs(), name);
  return value == nullptr ? std::string() : *value;
}

void DrawCall::drop(std::string_view name) {
  Attrs kept;
  for (const auto& [key, value] : attrs()) {
    if (key != name) kept.set(key, value);
  }
  attrs() = std::move(kept);
}

std::int64_t DrawCall::axis(std::string_view name, std::int64_t fallback) {
  return rank() == 0 ? 0 : (integer(name, fallback) + rank()) % rank();
}

DrawCall::Ints DrawCall::some_axes() {
  Ints result;
  for (std::int64_t axis = 0; axis < rank(); ++axis) {
    if (chance(45)) result.push_back(chance(30) ? axis - rank() : axis);
  }
  return result;
}

void DrawCall::add_ints(const Ints& values) { add(Tensor::vector_of(values), 85); }

void DrawCall::add_floats(Dims dims, ValueClass values) { add(draw(dtype(), std::move(dims), values), 70); }

void DrawCall::add_number(double value, int constant_percent) {
  add(from_elements<double>(dtype(), {}, std::vector<double>{value}), constant_percent);
}

void DrawCall::add_indices(Dims dims, std::int64_t length) {
  Ints values(static_cast<std::size_t>(element_count(dims)));
  for (std::int64_t& value : values) value = between(chance(20) ? -length : 0, length - 1);
  add(from_elements<std::int64_t>(chance(80) ? DType::int64 : DType::int32, std::move(dims), values), 60);
}

}  // namespace finity
