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
    const std::size_t wanted = std::bit_ceil(2 * names + 8);
    if (wanted > slots_.size()) grow(wanted);
  }

  // The id bound to the name, or null.
  const ValueId* find(std::string_view name) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[locate(name)];
    return slot.used ? &slot.id : nullptr;
  }

  // The place for the name's id, and whether the name is new. Valid until the next insert.
  std::pair<ValueId*, bool> insert(std::string_view name) {
    if (2 * (used_ + 1) > slots_.size()) grow(std::bit_ceil(4 * used_ + 16));
    Slot& slot = slots_[locate(name)];
    const bool fresh = !slot.used;
    if (fresh) {
      slot = {.name = name, .id = {}, .used = true};
      ++used_;
    }
    return {&slot.id, fresh};
  }

 private:
  struct Slot {
    std::string_view name = {};
    ValueId id = {};
    bool used = false;
  };

  static std::size_t hash(std::string_view name) {
    std::uint64_t state = name.size() * 0x9e3779b97f4a7c15;
    const char* at = name.data();
    std::size_t left = name.size();
    for (; left >= 8; left -= 8, at += 8) state = mix(state, at, 8);
    if (left > 0) state = mix(state, at, left);
    return static_cast<std::size_t>(state ^ state >> 32);
  }
  static std::uint64_t mix(std::uint64_t state, const char* at, std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, count);
    state = (state ^ word) * 0xff51afd7ed558ccd;
    return state ^ state >> 29;
  }

  std::size_t locate(std::string_view name) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash(name) & mask;
    while (slots_[at].used && slots_[at].name != name) at = (at + 1) & mask;
    return at;
  }

  void grow(std::size_t size) {
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.used) slots_[locate(slot.name)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace finity::onnx
