#include "ops/shared/partial_ints.h"

#include <algorithm>

#include "tensor/convert.h"

namespace finity {

namespace {

bool holds_ints(DType dtype) { return is_int(dtype) || dtype == DType::boolean; }

bool is_short_list(const Type& type) { return type.ranked && type.shape.size() <= 1 && holds_ints(type.dtype); }

// What a Dim can say: numbers that would wrap in a narrow dtype stay unknown.
Dim as_element(DType dtype, const PartialInt& x) {
  const auto holds = [&](std::int64_t value) {
    return value >= 0 ? static_cast<std::uint64_t>(value) <= int_max(dtype) : value >= int_min(dtype);
  };
  if (holds(x.least) && holds(x.most)) return x.as_dim();
  return {.size = -1, .symbol = x.value ? SymbolId{} : x.symbol};
}

// Bounds that are not known stay so.
std::int64_t low(std::int64_t bound, bool known) { return known ? bound : Dim::kNoLeast; }
std::int64_t high(std::int64_t bound, bool known) { return known ? bound : Dim::kNoMost; }
bool has_least(const PartialInt& x) { return x.least != Dim::kNoLeast; }
bool has_most(const PartialInt& x) { return x.most != Dim::kNoMost; }

}  // namespace

PartialInt sum(const PartialInt& a, const PartialInt& b) {
  if (b.is(0)) return a;
  if (a.is(0)) return b;
  return PartialInt::between(low(saturated_sum(a.least, b.least), has_least(a) && has_least(b)),
                             high(saturated_sum(a.most, b.most), has_most(a) && has_most(b)));
}

PartialInt difference(const PartialInt& a, const PartialInt& b) {
  if (b.is(0)) return a;
  if (surely_equal(a, b)) return PartialInt::of(0);
  return PartialInt::between(
      low(saturated_sum(a.least, -b.most), has_least(a) && has_most(b)),
      high(saturated_sum(a.most, b.least == Dim::kNoLeast ? 0 : -b.least), has_most(a) && has_least(b)));
}

PartialInt product(const PartialInt& a, const PartialInt& b) {
  if (a.is(0) || b.is(0)) return PartialInt::of(0);
  if (b.is(1)) return a;
  if (a.is(1)) return b;
  if (a.non_negative() && b.non_negative()) {
    return PartialInt::between(saturated_product(a.least, b.least),
                               high(saturated_product(a.most, b.most), has_most(a) && has_most(b)));
  }
  if (!has_least(a) || !has_most(a) || !has_least(b) || !has_most(b)) return {};
  const auto [least, most] = std::minmax({saturated_product(a.least, b.least), saturated_product(a.least, b.most),
                                          saturated_product(a.most, b.least), saturated_product(a.most, b.most)});
  return PartialInt::between(least, most);
}

PartialInt quotient(const PartialInt& a, const PartialInt& b) {
  if (b.is(1)) return a;
  if (b.least < 1 || b.most < 1) {
    return a.value && b.value && *b.value < -1 ? PartialInt::of(*a.value / *b.value) : PartialInt{};
  }
  // Further away from zero the smaller the divisor is.
  const std::int64_t least = a.least >= 0 ? a.least / b.most : a.least / b.least;
  const std::int64_t most = a.most >= 0 ? a.most / b.least : a.most / b.most;
  return PartialInt::between(low(least, has_least(a)), high(most, has_most(a)));
}

// One of two that is beyond the other for certain is the result, symbol and all.
PartialInt larger(const PartialInt& a, const PartialInt& b) {
  if (a.least >= b.most || surely_equal(a, b)) return a;
  if (b.least >= a.most) return b;
  return PartialInt::between(std::max(a.least, b.least), std::max(a.most, b.most));
}

PartialInt smaller(const PartialInt& a, const PartialInt& b) {
  if (a.most <= b.least || surely_equal(a, b)) return a;
  if (b.most <= a.least) return b;
  return PartialInt::between(std::min(a.least, b.least), std::min(a.most, b.most));
}

PartialInt either(const PartialInt& a, const PartialInt& b) {
  PartialInt result = PartialInt::between(std::min(a.least, b.least), std::max(a.most, b.most));
  if (surely_equal(a, b)) result.symbol = a.symbol;
  return result;
}

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
    result[k] = as_element(dtype, element);
  }
  const auto says_something = [](const Dim& dim) { return dim.known() || dim.symbol.valid() || dim.bounded(); };
  if (std::ranges::any_of(result, says_something)) call.set_shape_value(0, std::move(result));
}

}  // namespace

void propagate_ints(InferCall& call, PartialFunction f) { propagate(call, f, call.input_count()); }

void propagate_first_ints(InferCall& call) {
  propagate(
      call, [](std::span<const PartialInt> x) { return x.front(); }, 1);
}

}  // namespace finity
