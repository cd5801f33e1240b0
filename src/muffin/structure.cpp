#include "muffin/structure.h"

#include <algorithm>

namespace finity::muffin {

namespace {

void connect(Structure& structure, int from, int to) {
  std::vector<int>& before = structure[static_cast<std::size_t>(to)];
  if (std::ranges::find(before, from) == before.end()) before.push_back(from);
}

}  // namespace

Structure chain_with_skips(int vertices, Rng& rng) {
  Structure result(static_cast<std::size_t>(vertices));
  for (int i = 0; i < vertices; ++i) connect(result, i - 1, i);
  const std::uint64_t skips = rng.below(static_cast<std::uint64_t>(vertices / 3 + 1));
  for (std::uint64_t i = 0; i < skips && vertices > 1; ++i) {
    const int from = static_cast<int>(rng.below(static_cast<std::uint64_t>(vertices))) - 1;
    if (from + 2 >= vertices) continue;
    connect(result, from, from + 2 + static_cast<int>(rng.below(static_cast<std::uint64_t>(vertices - from - 2))));
  }
  return result;
}

Structure cell(int vertices, Rng& rng) {
  Structure result(static_cast<std::size_t>(vertices));
  const auto later = [&](int after) {
    return after + 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(vertices - after - 1)));
  };
  for (int i = -1; i + 1 < vertices; ++i) connect(result, i, rng.below(10) < 9 ? i + 1 : later(i));
  for (int i = 0; i < vertices; ++i) {
    if (!result[static_cast<std::size_t>(i)].empty()) continue;
    const bool next = rng.below(10) < 9 || i == 0;
    connect(result, next ? i - 1 : static_cast<int>(rng.below(static_cast<std::uint64_t>(i + 1))) - 1, i);
  }
  return result;
}

}  // namespace finity::muffin
