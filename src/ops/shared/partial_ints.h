// Integer scalars and vectors of which only some elements are known: how shapes
// travel through arithmetic (Shape -> Gather -> Mul -> Concat -> Reshape) when a
// dimension is symbolic. A symbol is the size of a dimension, so never negative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/table/call.h"

namespace finity {

struct PartialInt {
  std::optional<std::int64_t> value = {};
  SymbolId symbol = {};
  // The value itself, or what is known of it.
  std::int64_t least = Dim::kNoLeast;
  std::int64_t most = Dim::kNoMost;

  static PartialInt of(std::int64_t value) { return {.value = value, .symbol = {}, .least = value, .most = value}; }
  static PartialInt of(const Dim& dim) {
    if (dim.known()) return of(dim.size);
    return {.value = {}, .symbol = dim.symbol, .least = dim.lowest(), .most = dim.highest()};
  }
  static PartialInt between(std::int64_t least, std::int64_t most) {
    return least == most ? of(least) : PartialInt{.value = {}, .symbol = {}, .least = least, .most = most};
  }
  // A negative value is no size; it stays unknown there.
  Dim as_dim() const {
    if (value) return *value >= 0 ? Dim::of(*value) : Dim::between(*value, *value);
    return {.size = -1, .symbol = symbol, .least = least, .most = most};
  }
  bool is(std::int64_t wanted) const { return value && *value == wanted; }
  // Certainly below zero or certainly not; neither when unknown.
  bool negative() const { return most < 0; }
  bool non_negative() const { return least >= 0; }
  bool bounded() const { return least != Dim::kNoLeast || most != Dim::kNoMost; }
};
// Of every pair; exact where both are, and bounds else.
PartialInt sum(const PartialInt& a, const PartialInt& b);
PartialInt difference(const PartialInt& a, const PartialInt& b);
PartialInt product(const PartialInt& a, const PartialInt& b);
PartialInt quotient(const PartialInt& a, const PartialInt& b);  // towards zero
PartialInt larger(const PartialInt& a, const PartialInt& b);
PartialInt smaller(const PartialInt& a, const PartialInt& b);
PartialInt either(const PartialInt& a, const PartialInt& b);
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
