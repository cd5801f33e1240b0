#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

namespace finity {

namespace {

// Names in files can be very long; nobody types those by hand.
constexpr std::size_t kLongest = 200;

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Letters to insert, drop, replace or swap with their neighbour.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

bool letters_in_order(std::string_view few, std::string_view many) {
  std::size_t next = 0;
  for (const char c : many) next += next < few.size() && few[next] == c ? 1 : 0;
  return next == few.size();
}

// Twice the number of edits, or what stands for it; large when the names have nothing in common.
std::size_t distance(const std::string& name, const std::string& candidate) {
  constexpr std::size_t kFar = 1'000'000;
  if (name.empty() || name.size() > kLongest || candidate.size() > kLongest) return kFar;
  const std::size_t count = edits(name, candidate);
  // Something of the name must be left.
  const bool near = count <= std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
  if (near && count < name.size()) return 2 * count;
  // An abbreviation: begins alike, and all its letters are there.
  const bool abbreviates = name.size() > 1 && name.front() == candidate.front() && letters_in_order(name, candidate);
  const bool part = name.size() > 2 && candidate.find(name) != std::string::npos;
  return abbreviates || part ? 2 * count + 1 : kFar;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kNear = 100'000;
  const std::string wanted = lower(name);
  std::string best;
  std::size_t least = kNear;
  for (const std::string& candidate : candidates) {
    const std::size_t here = distance(wanted, lower(candidate));
    if (here >= least) continue;
    least = here;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string best = nearest_name(name, candidates);
  return best.empty() ? "" : " (did you mean '" + best + "'?)";
}

}  // namespace finity
