#include <cstdio>

#include "base/atomic_file.h"
#include "cli/check_run.h"
#include "cli/commands.h"

namespace finity {

namespace {

struct Options {
  std::vector<std::string> models;
  CheckSettings settings;
  std::string output;
};

int write_known(Options& options) {
  load_config(options.settings);
  options.settings.baseline.reset();  // the file is about to be replaced
  const CheckResult result = check_models(options.models, options.settings);
  print_problems(result);
  if (result.interrupted) finish_interrupted();
  // A baseline of half the models would make the others fail.
  if (exit_code(result) == 2) return 2;
  write_file_atomically(options.output, write_baseline(result.reports, options.output));
  std::size_t findings = 0;
  for (const Report& report : result.reports) {
    for (const Alarm& alarm : report.alarms) findings += alarm.counts() ? 1 : 0;
  }
  std::printf("%s: %zu finding%s accepted\n", options.output.c_str(), findings, findings == 1 ? "" : "s");
  return 0;
}

}  // namespace

void add_baseline(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("baseline", "Write the findings of models to a file that check --baseline accepts");
  auto options = std::make_shared<Options>();
  command->add_option("models", options->models, "ONNX or text files")->required();
  command->add_option("-o,--output", options->output, "The file to write")->required();
  add_model_options(*command, options->settings);
  add_run_options(*command, options->settings);
  command->callback([options, &exit_code] { exit_code = write_known(*options); });
}

}  // namespace finity
