// The abstractions of a tensor by their published names: one range for all elements, one per element, one per part in
// which the elements differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace finity {

enum class TensorAbstraction : std::uint8_t { smash, partition, expand };
inline constexpr std::array kTensorAbstractions = {TensorAbstraction::smash, TensorAbstraction::partition,
                                                   TensorAbstraction::expand};

constexpr std::string_view name(TensorAbstraction abstraction) {
  constexpr std::array<std::string_view, 3> kNames = {"smash", "partition", "expand"};
  return kNames[static_cast<std::size_t>(abstraction)];
}

// RangeSettings::max_cells.
constexpr std::size_t most_cells(TensorAbstraction abstraction) {
  constexpr std::array<std::size_t, 3> kCells = {1, 64, std::size_t{1} << 16U};
  return kCells[static_cast<std::size_t>(abstraction)];
}

}  // namespace finity
