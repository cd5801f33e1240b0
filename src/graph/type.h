// Static types of values: what is known before anything runs. Each part may be
// unknown: the dtype, the rank, single dimensions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace finity {

// A dimension of which nothing is said is taken to be at most this large; reports say so.
inline constexpr std::int64_t kLargestAssumedSize = 1048576;

// A size, or a symbol of the graph ("batch"), or nothing but bounds. Whether a dimension may be empty is decided here
// and nowhere else: a size that is not known may be 0 unless `least` says otherwise, which it does for the dimensions
// of a model's inputs, and for what is computed from them as far as arithmetic tells.
struct Dim {
  static constexpr std::int64_t kNoLeast = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

  std::int64_t size = -1;
  SymbolId symbol = {};
  // Bounds of what is not known. An element of a tensor that is used as a size may also be negative.
  std::int64_t least = kNoLeast;
  std::int64_t most = kNoMost;

  static Dim of(std::int64_t size) { return {.size = size}; }
  static Dim between(std::int64_t least, std::int64_t most) { return {.size = -1, .least = least, .most = most}; }
  bool known() const { return size >= 0; }
  // As a size.
  std::int64_t least_size() const { return known() ? size : std::max<std::int64_t>(least, 0); }
  std::int64_t most_size() const {
    if (known()) return size;
    return most == kNoMost ? kLargestAssumedSize : std::max<std::int64_t>(most, 0);
  }
  // As a number.
  std::int64_t lowest() const { return known() ? size : symbol.valid() ? std::max<std::int64_t>(least, 0) : least; }
  std::int64_t highest() const { return known() ? size : most; }
  bool bounded() const { return least != kNoLeast || most != kNoMost; }
  // The same size or symbol; bounds are not compared.
  bool operator==(const Dim& other) const { return size == other.size && symbol == other.symbol; }
};

// Equal for certain: equal sizes or the same symbol.
inline bool surely_equal(const Dim& a, const Dim& b) { return a == b && (a.known() || a.symbol.valid()); }
// a * b without overflow: large numbers stay large.
std::int64_t saturated_product(std::int64_t a, std::int64_t b);
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);
// The bounds of a and of b: a size that is one of them.
Dim either(const Dim& a, const Dim& b);

using Shape = std::vector<Dim>;

struct Type {
  enum class Kind : std::uint8_t { unknown, tensor, sparse_tensor, sequence, optional, map };

  Kind kind = Kind::unknown;
  DType dtype = DType::undefined;  // of the elements; of the keys for a map
  bool ranked = false;
  Shape shape;                          // meaningful when ranked
  std::shared_ptr<const Type> element;  // sequence, optional, map
  Dim count = {};                       // of all elements; meaningful when not ranked

  static Type tensor(DType dtype) {
    return {.kind = Kind::tensor, .dtype = dtype, .ranked = false, .shape = {}, .element = nullptr, .count = {}};
  }
  static Type tensor(DType dtype, Shape shape) {
    return {.kind = Kind::tensor,
            .dtype = dtype,
            .ranked = true,
            .shape = std::move(shape),
            .element = nullptr,
            .count = {}};
  }
  static Type tensor_of(DType dtype, std::span<const std::int64_t> dims);
  static Type sequence(Type element);
  static Type optional(Type element);

  bool is_tensor() const { return kind == Kind::tensor; }
  // All sizes, when every one is known.
  std::optional<Dims> dims() const;
  // Bounds of the number of elements.
  Dim elements() const;

  bool operator==(const Type& other) const;
};

// The same type with the same bounds of sizes.
bool identical(const Type& a, const Type& b);
// What is known in either; where they contradict, `preferred` wins and `conflict` (if given) is set.
Type merge(const Type& preferred, const Type& other, bool* conflict = nullptr);
// What holds for both branches of an If.
Type join(const Type& a, const Type& b);

}  // namespace finity
