// The pages of the rule table: `finity rules` and docs/rules.md.
#pragma once

#include <string>

#include "ops/table/hazard.h"

namespace finity {

// "Log(operand 0) in float32: <= 0": where the op table says a rule looks, with the unsafe values of each format.
struct RuleSite {
  std::string op = {};
  std::size_t operand = 0;
  std::vector<std::pair<DType, std::string>> unsafe = {};
};
std::vector<RuleSite> rule_sites(const Rule& rule);
// Ops whose overflow or NaN is reported under the rule.
std::vector<std::string> result_ops(const Rule& rule);

std::string rules_table_text();
std::string rule_page_text(const Rule& rule);
std::string rules_markdown();
std::string rules_json();

}  // namespace finity
