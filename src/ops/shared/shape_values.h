// Shapes as data: dimensions that are computed, sliced, joined and reshaped by
// the model itself before some op uses them as a shape. What is known of each
// element, be it a number or a symbol, survives here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/type.h"
#include "ops/table/call.h"
#include "tensor/tensor.h"

namespace finity {

// Exact for numbers; a symbol survives + 0 and * 1, and bounds always do. Throw Error on overflow.
Dim plus(const Dim& a, const Dim& b);
Dim times(const Dim& a, const Dim& b);

// The size both must have; throws Error when they are known to differ.
Dim same(const Dim& a, const Dim& b, std::string_view what);

// Any number of them, perhaps none.
Dim some_of(const Dim& dim);
// As many as room / step, rounded up; the bounds of an unknown `room` are rounded each.
Dim steps_in(const Dim& room, std::int64_t step);

// One element of an operand that stands for sizes, axes or indices. Numbers may be negative.
struct Entry {
  std::optional<std::int64_t> number = {};
  Dim dim = {};  // of a number >= 0, or a symbol, or bounds

  std::int64_t lowest() const { return number ? *number : dim.lowest(); }
  std::int64_t highest() const { return number ? *number : dim.highest(); }

  static Entry of(std::int64_t number) { return {.number = number, .dim = number >= 0 ? Dim::of(number) : Dim{}}; }
};
using Entries = std::vector<Entry>;

// Elements of input `input`, or of attribute `attr` where the op has no such input (older opsets pass lists as
// attributes). Nullopt when not even their number is known; an empty list when neither is given.
std::optional<Entries> entries(const InferCall& call, std::string_view attr, std::size_t input);
// The numbers, when all are known.
std::optional<std::vector<std::int64_t>> numbers(const std::optional<Entries>& entries);
// The same for evaluation. `attr` may be empty.
std::vector<std::int64_t> numbers(const EvalCall& call, std::string_view attr, std::size_t input);
Entries entries_of(std::span<const std::int64_t> numbers);
bool given(const Call& call, std::string_view attr, std::size_t input);

// Elements of an integer scalar or vector; nullopt for anything else.
std::optional<Shape> shape_elements(const InferCall& call, std::size_t input);
// Output 0 has the elements of input 0, in the same order; said after its shape is set.
void keep_shape_value(InferCall& call);

// The last axis of `indices` holds tuples, each an index into `rank` axes or the first few of them.
void check_tuples(const Shape& indices, std::size_t rank);

Shape unknown_shape(std::size_t rank);
// The same, of something that has elements or has none as `whole` does.
Shape unknown_shape_of(const Type& whole, std::size_t rank);
Shape shape_of(const Tensor& tensor);
// Where every size is known, as in evaluation.
Dims sizes_of(const Shape& shape);

}  // namespace finity
