// Which ops stand behind which, in turn: all ordered pairs of different ops come before one comes again. A sample's
// path is a function of its number alone, so shards and threads need not know what others drew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace finity::fuzz {

inline constexpr std::size_t kPathSteps = 3;

// So many paths hold every ordered pair of `count` things once.
std::uint64_t paths_in_cycle(std::size_t count);
// Path number `number`: up to kPathSteps things. What is not below `count` is a gap; pairs across it do not count.
std::vector<std::size_t> path_in_turn(std::size_t count, std::uint64_t number);

}  // namespace finity::fuzz
