// Integer scalars and vectors of which only some elements are known: how shapes
// travel through arithmetic (Shape -> Gather -> Mul -> Concat -> Reshape) when a
// dimension is symbolic. A symbol is the size of a dimension, so never negative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/call.h"

namespace finity {

struct PartialInt {
  std::optional<std::int64_t> value = {};
  SymbolId symbol = {};

  static PartialInt of(std::int64_t value) { return {.value = value, .symbol = {}}; }
  static PartialInt of(const Dim& dim) {
    return dim.known() ? of(dim.size) : PartialInt{.value = {}, .symbol = dim.symbol};
  }
  bool is(std::int64_t wanted) const { return value && *value == wanted; }
  // Certainly below zero or certainly not; neither when unknown.
  bool negative() const { return value && *value < 0; }
  bool non_negative() const { return value ? *value >= 0 : symbol.valid(); }
  bool known() const { return value.has_value() || symbol.valid(); }
};
// The same for certain.
inline bool surely_equal(const PartialInt& a, const PartialInt& b) {
  if (a.value && b.value) return *a.value == *b.value;
  return !a.value && !b.value && a.symbol.valid() && a.symbol == b.symbol;
}
inline bool surely_different(const PartialInt& a, const PartialInt& b) {
  if (a.value && b.value) return *a.value != *b.value;
  return (a.negative() && b.non_negative()) || (b.negative() && a.non_negative());
}

// Elements of an integer or bool operand of rank 0 or 1; nullopt when it is something else or nothing is known.
std::optional<std::vector<PartialInt>> partial_ints(const InferCall& call, std::size_t input);

// Applies f to the operands element by element (scalars and one-element vectors repeat) and states the result as
// output 0's elements. Does nothing unless every operand is a small scalar or vector and the output holds integers.
using PartialFunction = PartialInt (*)(std::span<const PartialInt>);
void propagate_ints(InferCall& call, PartialFunction f);
// The same with input 0 alone, whose elements output 0 repeats in its own dtype.
void propagate_first_ints(InferCall& call);

}  // namespace finity
