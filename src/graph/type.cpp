#include "graph/type.h"

#include <algorithm>
#include <utility>

namespace finity {

Type Type::tensor_of(DType dtype, std::span<const std::int64_t> dims) {
  Shape shape;
  shape.reserve(dims.size());
  for (const std::int64_t dim : dims) shape.push_back(Dim::of(dim));
  return tensor(dtype, std::move(shape));
}

Type Type::sequence(Type element) {
  Type result;
  result.kind = Kind::sequence;
  result.element = std::make_shared<const Type>(std::move(element));
  return result;
}

Type Type::optional(Type element) {
  Type result = sequence(std::move(element));
  result.kind = Kind::optional;
  return result;
}

std::optional<Dims> Type::dims() const {
  if (kind != Kind::tensor || !ranked) return std::nullopt;
  Dims result;
  result.reserve(shape.size());
  for (const Dim& dim : shape) {
    if (!dim.known()) return std::nullopt;
    result.push_back(dim.size);
  }
  return result;
}

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return (a < 0) == (b < 0) ? Dim::kNoMost - 1 : Dim::kNoLeast + 1;
}

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a > 0 ? Dim::kNoMost - 1 : Dim::kNoLeast + 1;
}

Dim either(const Dim& a, const Dim& b) {
  if (a.known() && a.size == b.size) return a;
  Dim result;
  if (surely_equal(a, b)) result.symbol = a.symbol;
  result.least = std::min(a.lowest(), b.lowest());
  // An assumed limit does not bound the other's.
  const bool assumed = a.highest() == Dim::kNoMost && b.highest() == Dim::kNoMost;
  result.most = assumed ? Dim::kNoMost : std::max(a.most_size(), b.most_size());
  return result;
}

Dim Type::elements() const {
  if (!ranked) return count;
  Dim result = Dim::between(1, 1);
  for (const Dim& dim : shape) {
    result.least = saturated_product(result.least, dim.least_size());
    result.most = saturated_product(result.most, dim.most_size());
  }
  return result;
}

bool Type::operator==(const Type& other) const {
  if (kind != other.kind || dtype != other.dtype || ranked != other.ranked) return false;
  if (ranked && shape != other.shape) return false;
  if (!element || !other.element) return element == other.element;
  return *element == *other.element;
}

namespace {

Dim merge(const Dim& preferred, const Dim& other, bool& conflict) {
  if (preferred.known() && other.known() && preferred.size != other.size) conflict = true;
  if (preferred.known()) return preferred;
  if (other.known()) return other;
  Dim result = preferred;
  if (!result.symbol.valid()) result.symbol = other.symbol;
  return result;
}

Shape merge(const Shape& preferred, const Shape& other, bool& conflict) {
  if (preferred.size() != other.size()) {
    conflict = true;
    return preferred;
  }
  Shape result;
  for (std::size_t i = 0; i < preferred.size(); ++i) result.push_back(merge(preferred[i], other[i], conflict));
  return result;
}

}  // namespace

Type merge(const Type& preferred, const Type& other, bool* conflict) {
  bool clash = false;
  if (preferred.kind == Type::Kind::unknown) return other;
  if (other.kind == Type::Kind::unknown) return preferred;
  Type result = preferred;
  if (preferred.kind != other.kind) {
    clash = true;
  } else {
    if (result.dtype == DType::undefined) result.dtype = other.dtype;
    else if (other.dtype != DType::undefined && other.dtype != result.dtype) clash = true;
    if (!result.ranked && other.ranked) {
      result.ranked = true;
      result.shape = other.shape;
    } else if (result.ranked && other.ranked) {
      result.shape = merge(result.shape, other.shape, clash);
    }
    if (result.element && other.element) {
      result.element = std::make_shared<const Type>(merge(*result.element, *other.element, &clash));
    } else if (other.element) {
      result.element = other.element;
    }
  }
  if (conflict != nullptr && clash) *conflict = true;
  return result;
}

bool identical(const Type& a, const Type& b) {
  const auto same_bounds = [](const Dim& x, const Dim& y) { return x.least == y.least && x.most == y.most; };
  if (!(a == b) || !same_bounds(a.count, b.count)) return false;
  if (a.ranked && !std::ranges::equal(a.shape, b.shape, same_bounds)) return false;
  return !a.element || identical(*a.element, *b.element);
}

Type join(const Type& a, const Type& b) {
  if (a.kind != b.kind) return {};
  Type result;
  result.kind = a.kind;
  if (a.dtype == b.dtype) result.dtype = a.dtype;
  if (a.ranked && b.ranked && a.shape.size() == b.shape.size()) {
    result.ranked = true;
    for (std::size_t i = 0; i < a.shape.size(); ++i) result.shape.push_back(either(a.shape[i], b.shape[i]));
  } else {
    result.count = either(a.elements(), b.elements());
  }
  if (a.element && b.element) result.element = std::make_shared<const Type>(join(*a.element, *b.element));
  return result;
}

}  // namespace finity
