#include <cstdio>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "report/rules_page.h"

namespace finity {

namespace {

struct Options {
  std::string rule;
  bool markdown = false;
  bool json = false;
};

std::string page(const Options& options) {
  if (options.markdown) return rules_markdown();
  if (options.json) return rules_json();
  if (options.rule.empty()) return rules_table_text();
  if (const Rule* rule = find_rule(options.rule)) return rule_page_text(*rule);
  std::vector<std::string> names;
  for (const Rule& rule : all_rules()) names.insert(names.end(), {std::string(rule.code), std::string(rule.slug)});
  throw Error("there is no rule '" + options.rule + "'" + did_you_mean(options.rule, names) +
              "; finity rules lists all");
}

void show_rules(const Options& options) {
  const std::string text = page(options);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_rules(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("rules", "List the rules of check, or tell all about one");
  auto options = std::make_shared<Options>();
  command->add_option("rule", options->rule, "Code or slug");
  command->add_flag("--markdown", options->markdown, "The page docs/rules.md");
  command->add_flag("--json", options->json, "The table as JSON");
  command->callback([options] { show_rules(*options); });
}

}  // namespace finity
