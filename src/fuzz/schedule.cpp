#include "fuzz/schedule.h"

#include <algorithm>

namespace finity::fuzz {

namespace {

constexpr std::size_t kEdges = kPathSteps - 1;

bool is_prime(std::size_t number) {
  for (std::size_t i = 2; i * i <= number; ++i) {
    if (number % i == 0) return false;
  }
  return number > 1;
}

std::size_t prime_from(std::size_t number) {
  while (!is_prime(number)) ++number;
  return number;
}

std::size_t paths_in_round(std::size_t prime) { return (prime + kEdges - 1) / kEdges; }

}  // namespace

// Modulo a prime, steps of any length but 0 go through all residues. So the pairs at one distance are one round, which
// is cut into paths, and all distances are all pairs.
std::uint64_t paths_in_cycle(std::size_t count) {
  const std::size_t prime = prime_from(std::max<std::size_t>(count, 2));
  return std::uint64_t{paths_in_round(prime)} * (prime - 1);
}

std::vector<std::size_t> path_in_turn(std::size_t count, std::uint64_t number) {
  const std::size_t prime = prime_from(std::max<std::size_t>(count, 2)), round = paths_in_round(prime);
  const std::size_t distance = 1 + number / round % (prime - 1), begin = number % round * kEdges;
  std::vector<std::size_t> path;
  for (std::size_t i = begin; i <= std::min(begin + kEdges, prime); ++i) path.push_back(i * distance % prime);
  return path;
}

}  // namespace finity::fuzz
