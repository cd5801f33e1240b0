#include "fuzz/mutate_bytes.h"

#include <algorithm>

namespace finity {

namespace {

std::string random_bytes(Rng& rng, std::size_t count) {
  std::string text(count, '\0');
  for (char& c : text) c = static_cast<char>(rng.bits());
  return text;
}

// Kinds of change below `kinds`: the first two keep every length, so the change gets past the outer messages.
void mutate_once(std::string& bytes, const std::string& other, Rng& rng, std::uint64_t kinds) {
  if (bytes.empty()) bytes = random_bytes(rng, 8);
  const std::size_t at = rng.below(bytes.size());
  const std::size_t length = 1 + rng.below(std::min<std::size_t>(bytes.size() - at, 64));
  switch (rng.below(kinds)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8))); break;
    case 1: bytes[at] = static_cast<char>(rng.bits()); break;
    case 2: bytes.resize(at); break;
    case 3: bytes.erase(at, length); break;
    case 4: bytes.insert(at, bytes.substr(at, length)); break;
    case 5: bytes.insert(at, random_bytes(rng, length)); break;
    // A varint with all bits set: huge lengths, dimensions and field numbers.
    case 6: bytes.replace(at, std::min<std::size_t>(length, 10), "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"); break;
    default: {
      const std::size_t from = other.empty() ? 0 : rng.below(other.size());
      bytes.replace(at, length, other.substr(from, 256));
    }
  }
}

}  // namespace

void mutate_bytes(std::string& bytes, const std::string& other, Rng& rng) {
  const std::uint64_t steps = 1 + rng.below(4);
  const std::uint64_t kinds = rng.below(2) == 0 ? 2 : 8;
  for (std::uint64_t step = 0; step < steps; ++step) mutate_once(bytes, other, rng, kinds);
}

}  // namespace finity
