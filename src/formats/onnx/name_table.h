// Names of one scope to value ids. The keys are views into the file, so reading
// a graph copies each name once, into its value. Open addressing, because this
// table is what a large graph spends its reading time in.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace finity::onnx {

class NameTable {
 public:
  void reserve(std::size_t names) {
    entries_.reserve(names);
    const std::size_t wanted = std::bit_ceil(2 * names + 8);
    if (wanted > slots_.size()) grow(wanted);
  }

  // The id bound to the name, or null.
  const ValueId* find(std::string_view name) const {
    if (entries_.empty()) return nullptr;
    const Slot& slot = slots_[locate(name, hash(name))];
    return slot.entry == kFree ? nullptr : &entries_[slot.entry].id;
  }

  // Starts to load the name's slot, for a find() or insert() soon after. Half of the time to read a large graph
  // would otherwise be spent waiting for memory. Always inline: g++ drops calls of functions that only prefetch.
  [[gnu::always_inline]] void prefetch(std::string_view name) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[static_cast<std::size_t>(hash(name)) & (slots_.size() - 1)]);
  }

  // The place for the name's id, and whether the name is new. Valid until the next insert.
  std::pair<ValueId*, bool> insert(std::string_view name) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow(std::bit_ceil(4 * entries_.size() + 16));
    const std::uint64_t code = hash(name);
    Slot& slot = slots_[locate(name, code)];
    const bool fresh = slot.entry == kFree;
    if (fresh) {
      slot = {.tag = tag_of(code), .entry = static_cast<std::uint32_t>(entries_.size())};
      entries_.push_back({.name = name, .id = {}});
    }
    return {&entries_[slot.entry].id, fresh};
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffff;
  static constexpr std::uint64_t kFinal = 0xe7037ed1a0b428db;

  // Small, since a lookup lands anywhere in the table. The entries are in the order of the file, and names
  // are mostly used close to where they are defined, so those are in the cache.
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash: most other names differ already here
    std::uint32_t entry = kFree;
  };
  struct Entry {
    std::string_view name = {};
    ValueId id = {};
  };

  static std::uint32_t tag_of(std::uint64_t code) { return static_cast<std::uint32_t>(code >> 32); }

  // Eight bytes at a time; the last eight may overlap those before.
  static std::uint64_t hash(std::string_view name) {
    std::uint64_t state = name.size() * 0x9e3779b97f4a7c15;
    const char* at = name.data();
    std::size_t left = name.size();
    for (; left > 8; left -= 8, at += 8) state = mix(state, load<std::uint64_t>(at));
    if (name.size() >= 8) return mix(mix(state, load<std::uint64_t>(at + left - 8)), kFinal);
    return mix(mix(state, load_short(name)), kFinal);
  }
  static std::uint64_t load_short(std::string_view name) {
    const std::size_t size = name.size();
    if (size >= 4) {
      const std::uint64_t last = load<std::uint32_t>(name.data() + size - 4);
      return load<std::uint32_t>(name.data()) | last << 32;
    }
    std::uint64_t word = 0;
    for (const char c : name) word = word << 8 | static_cast<unsigned char>(c);
    return word;
  }
  template <class T>
  static T load(const char* at) {
    T word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  // The product's upper half depends on all bits, its lower half does not: fold them.
  static std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
    const auto product = static_cast<unsigned __int128>(state ^ word ^ 0xa0761d6478bd642f) * 0xff51afd7ed558ccd;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::size_t locate(std::string_view name, std::uint64_t code) const {
    const std::size_t mask = slots_.size() - 1;
    const std::uint32_t tag = tag_of(code);
    std::size_t at = static_cast<std::size_t>(code) & mask;
    while (slots_[at].entry != kFree && (slots_[at].tag != tag || entries_[slots_[at].entry].name != name)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  void grow(std::size_t size) {
    slots_.assign(size, Slot{});
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::uint64_t code = hash(entries_[i].name);
      slots_[locate(entries_[i].name, code)] = {.tag = tag_of(code), .entry = static_cast<std::uint32_t>(i)};
    }
  }

  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
};

}  // namespace finity::onnx
