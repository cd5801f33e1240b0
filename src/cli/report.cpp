// finity report DIR: what a campaign of finity fuzz found.
#include <cstdio>
#include <filesystem>

#include "base/atomic_file.h"
#include "cli/commands.h"
#include "fuzz/summary.h"
#include "muffin/tables.h"

namespace finity {

namespace {

struct Options {
  std::string folder;
  std::string format = "text";
  std::string output;
};

// A run of finity fuzz --oracle muffin.
bool is_baseline(const std::string& folder) {
  return std::filesystem::exists(std::filesystem::path(folder) / "muffin.sqlite");
}

int report_baseline(const Options& options) {
  const std::string name = std::filesystem::path(options.folder).filename().string();
  const std::string text = muffin::in_format(muffin::tables_of({{name, "", options.folder}}), options.format);
  if (options.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(options.output, text);
  return 0;
}

int report(const Options& options) {
  if (is_baseline(options.folder)) return report_baseline(options);
  const fuzz::Summary summary = fuzz::read_summary(options.folder);
  const std::string text = options.format == "json"   ? fuzz::as_json(summary)
                           : options.format == "html" ? fuzz::as_page(summary)
                                                      : fuzz::as_plain_text(summary);
  if (options.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(options.output, text);
  return summary.findings.empty() ? 0 : 1;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("report", "Show what a campaign of finity fuzz found");
  auto options = std::make_shared<Options>();
  command->add_option("folder", options->folder, "The --workdir or the --store of the campaign")->required();
  command->add_option("--format", options->format, "text, json or html (default text)")
      ->check(CLI::IsMember({"text", "json", "html"}));
  command->add_option("-o,--output", options->output, "File to write (default: standard output)");
  command->callback([options, &exit_code] { exit_code = report(*options); });
}

}  // namespace finity
