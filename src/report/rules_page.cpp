#include "report/rules_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ops/table/op.h"
#include "ops/table/rule_group.h"
#include "ops/table/rule_patterns.h"
#include "report/words.h"

namespace finity {

namespace {

constexpr std::array kShownFormats = {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int64};

std::string full_name(const OpDef& op) {
  return op.identity.domain.empty() ? std::string(op.identity.name)
                                    : std::string(op.identity.domain) + "." + std::string(op.identity.name);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

// Formats with the same unsafe values share a part: "float16, float32: <= 0".
std::string unsafe_words(const RuleSite& site) {
  std::vector<std::string> parts;
  std::vector<bool> told(site.unsafe.size(), false);
  for (std::size_t i = 0; i < site.unsafe.size(); ++i) {
    if (told[i]) continue;
    std::vector<std::string> formats;
    for (std::size_t k = i; k < site.unsafe.size(); ++k) {
      if (site.unsafe[k].second != site.unsafe[i].second) continue;
      told[k] = true;
      formats.emplace_back(name(site.unsafe[k].first));
    }
    parts.push_back(site.unsafe[i].second + " (" + joined(formats, ", ") + ")");
  }
  return joined(parts, "; ");
}

struct Family {
  RuleGroup group = {};
  std::string_view title;
};
constexpr std::array kFamilies = {Family{RuleGroup::domain, "Operands outside an operator's domain"},
                                  Family{RuleGroup::overflow, "Results beyond the largest finite number"},
                                  Family{RuleGroup::invalid, "NaN from infinities and degenerate data"},
                                  Family{RuleGroup::constant, "Constants in the file"},
                                  Family{RuleGroup::coverage, "What could not be analysed"}};

std::string wrapped(std::string_view text, std::string_view indent) {
  constexpr std::size_t kWidth = 96;
  std::string result(indent);
  std::size_t column = indent.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool first = column == indent.size();
    if (!first && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(indent);
      column = indent.size();
    } else if (!first) {
      result += " ";
      ++column;
    }
    result += word;
    column += word.size();
    at = end + 1;
  }
  return result + "\n";
}

}  // namespace

std::vector<RuleSite> rule_sites(const Rule& rule) {
  std::vector<RuleSite> sites;
  for (const OpDef* op : all_ops()) {
    for (const Hazard& hazard : op->analysis.hazards) {
      if (hazard.rule != rule.code || hazard.unsafe == nullptr || hazard.quantity != nullptr) continue;
      RuleSite site = {.op = full_name(*op), .operand = hazard.operand};
      for (const DType dtype : kShownFormats) {
        const std::string text = unsafe_text(hazard.unsafe(dtype), dtype);
        if (!text.empty()) site.unsafe.emplace_back(dtype, text);
      }
      sites.push_back(std::move(site));
    }
  }
  return sites;
}

std::vector<std::string> result_ops(const Rule& rule) {
  std::vector<std::string> names;
  // The rules that ops have unless they say otherwise would list the whole table.
  const OpDef fallback;
  if (rule.code == fallback.analysis.overflow || rule.code == fallback.analysis.invalid) return names;
  for (const OpDef* op : all_ops()) {
    if (op->analysis.overflow == rule.code || op->analysis.invalid == rule.code) names.push_back(full_name(*op));
  }
  return names;
}

namespace {

// "Log(Add(1, X)) or Log1p(X) of such a result": how a rule that names a way of writing something is recognised.
std::string pattern_words(const Rule& rule) {
  std::vector<std::string> uses;
  std::string general;
  for (const RulePattern& pattern : rule_patterns()) {
    if (pattern.rule != rule.code) continue;
    uses.emplace_back(pattern.use);
    general = pattern.instead_of;
  }
  return uses.empty() ? "" : "Told in place of " + general + " where X is used as " + joined(uses, ", ") + ".";
}

}  // namespace

std::string rules_table_text() {
  std::string text;
  for (const Rule& rule : all_rules()) {
    std::string slug(rule.slug);
    slug.resize(std::max<std::size_t>(slug.size(), 27), ' ');
    text += std::string(rule.code) + "  " + slug + "  " + std::string(rule.summary) + "\n";
  }
  return text + counted(all_rules().size(), "rule") + "; finity rules CODE tells more\n";
}

std::string rule_page_text(const Rule& rule) {
  std::string text = rule_title(rule) + "\n" + wrapped(rule.summary, "  ") + "\n" + wrapped(rule.detail, "  ") + "\n" +
                     wrapped("fix: " + std::string(rule.fix), "  ");
  const std::vector<RuleSite> sites = rule_sites(rule);
  if (!sites.empty()) text += "\n  unsafe operands\n";
  for (const RuleSite& site : sites) {
    text += "    " + site.op + " operand " + std::to_string(site.operand) + ": " + unsafe_words(site) + "\n";
  }
  const std::vector<std::string> results = result_ops(rule);
  if (!results.empty()) text += "\n" + wrapped("results of " + joined(results, ", "), "  ");
  const std::string pattern = pattern_words(rule);
  if (!pattern.empty()) text += "\n" + wrapped(pattern, "  ");
  return text;
}

std::string rules_markdown() {
  std::string text =
      "# Rules\n\n"
      "Made by `finity rules --markdown`; a test keeps this page up to date. Codes and slugs are stable. `--select` "
      "and\n"
      "`--ignore` take codes, prefixes of codes (`FN1`) and slugs.\n";
  for (const auto& [group, title] : kFamilies) {
    text += "\n## FN" + std::to_string(static_cast<int>(group)) + "xx: " + std::string(title) + "\n";
    for (const Rule& rule : all_rules()) {
      if (group_of(rule.code) != group) continue;
      text += "\n### " + rule_title(rule) + "\n\n**" + std::string(rule.summary) + "**\n\n" + wrapped(rule.detail, "") +
              "\n" + wrapped("Fix: " + std::string(rule.fix) + ".", "");
      const std::vector<RuleSite> sites = rule_sites(rule);
      if (!sites.empty()) text += "\n| operator | operand | unsafe values |\n|---|---|---|\n";
      for (const RuleSite& site : sites) {
        text += "| " + site.op + " | " + std::to_string(site.operand) + " | " + unsafe_words(site) + " |\n";
      }
      const std::vector<std::string> results = result_ops(rule);
      if (!results.empty()) text += "\n" + wrapped("Results of " + joined(results, ", ") + ".", "");
      const std::string pattern = pattern_words(rule);
      if (!pattern.empty()) text += "\n" + wrapped(pattern, "");
    }
  }
  return text;
}

std::string rules_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Rule& rule : all_rules()) {
    list.push_back({{"code", rule.code},
                    {"slug", rule.slug},
                    {"summary", rule.summary},
                    {"detail", rule.detail},
                    {"fix", rule.fix}});
  }
  return list.dump(2) + "\n";
}

}  // namespace finity
