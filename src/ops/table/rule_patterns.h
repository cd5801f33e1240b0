// Rules that name a known way of writing something badly: the site is that of a general rule, told apart by what is
// computed from its value.
#pragma once

#include <span>
#include <string_view>

namespace finity {

struct RulePattern {
  std::string_view rule = {};
  std::string_view instead_of = {};  // the rule that the op raises
  std::string_view use = {};         // what is computed from the value, which it calls X: see expression.h
};
std::span<const RulePattern> rule_patterns();
// The rule that the op raises, whatever the finding is called.
std::string_view raised_rule(std::string_view rule);

}  // namespace finity
