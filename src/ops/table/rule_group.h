// What the rules of a group are about, so that nobody looks at the digits of codes.
#pragma once

#include <cstdint>
#include <string_view>

namespace finity {

enum class RuleGroup : std::uint8_t { domain = 1, overflow = 2, invalid = 3, constant = 4, coverage = 9 };

// The first digit of a code tells: FN102 is about the domain of an operand.
inline RuleGroup group_of(std::string_view code) {
  return code.size() < 3 ? RuleGroup{} : static_cast<RuleGroup>(code[2] - '0');
}

}  // namespace finity
