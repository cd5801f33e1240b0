// Typed dense indices: a NodeId cannot be used where a ValueId is meant, and a
// side table over values is a plain vector.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace finity {

template <class Tag>
struct Id {
  std::int32_t index = -1;

  constexpr bool valid() const { return index >= 0; }
  constexpr std::size_t at() const { return static_cast<std::size_t>(index); }
  constexpr auto operator<=>(const Id&) const = default;
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using BodyId = Id<struct BodyTag>;
using SymbolId = Id<struct SymbolTag>;

}  // namespace finity

template <class Tag>
struct std::hash<finity::Id<Tag>> {
  std::size_t operator()(finity::Id<Tag> id) const noexcept { return std::hash<std::int32_t>()(id.index); }
};
