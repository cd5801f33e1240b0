// Static types of values: what is known before anything runs. Each part may be
// unknown: the dtype, the rank, single dimensions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace finity {

// A size, or a symbol of the graph ("batch"), or nothing known.
struct Dim {
  std::int64_t size = -1;
  SymbolId symbol = {};

  static Dim of(std::int64_t size) { return {.size = size}; }
  bool known() const { return size >= 0; }
  bool operator==(const Dim&) const = default;
};

// Equal for certain: equal sizes or the same symbol.
inline bool surely_equal(const Dim& a, const Dim& b) { return a == b && (a.known() || a.symbol.valid()); }

using Shape = std::vector<Dim>;

struct Type {
  enum class Kind : std::uint8_t { unknown, tensor, sparse_tensor, sequence, optional, map };

  Kind kind = Kind::unknown;
  DType dtype = DType::undefined;  // of the elements; of the keys for a map
  bool ranked = false;
  Shape shape;                          // meaningful when ranked
  std::shared_ptr<const Type> element;  // sequence, optional, map

  static Type tensor(DType dtype) {
    return {.kind = Kind::tensor, .dtype = dtype, .ranked = false, .shape = {}, .element = nullptr};
  }
  static Type tensor(DType dtype, Shape shape) {
    return {.kind = Kind::tensor, .dtype = dtype, .ranked = true, .shape = std::move(shape), .element = nullptr};
  }
  static Type tensor_of(DType dtype, std::span<const std::int64_t> dims);
  static Type sequence(Type element);
  static Type optional(Type element);

  bool is_tensor() const { return kind == Kind::tensor; }
  // All sizes, when every one is known.
  std::optional<Dims> dims() const;

  bool operator==(const Type& other) const;
};

// What is known in either; where they contradict, `preferred` wins and `conflict` (if given) is set.
Type merge(const Type& preferred, const Type& other, bool* conflict = nullptr);
// What holds for both branches of an If.
Type join(const Type& a, const Type& b);

}  // namespace finity
