// finity bench muffin: Muffin's comparison of ways to test libraries, on the versions that are installed.
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "cli/commands.h"
#include "muffin/bench.h"

namespace finity {

namespace {

volatile std::sig_atomic_t interrupted = 0;

struct Options {
  muffin::BenchMuffinOptions bench;
  std::string format = "text";
  std::string output;
};

int run_bench(Options& options) {
  options.bench.version = FINITY_VERSION;
  std::signal(SIGINT, [](int) { interrupted = 1; });
  muffin::RunHooks hooks;
  hooks.note = [](const std::string& text) { std::fprintf(stderr, "finity: note: %s\n", text.c_str()); };
  hooks.stop = [] { return interrupted != 0; };
  const std::string text = muffin::in_format(muffin::bench_muffin(options.bench, hooks), options.format);
  if (options.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(options.output, text);
  if (interrupted == 0) return 0;
  std::fprintf(stderr, "finity: interrupted; run it again with the same --workdir to go on\n");
  return 2;
}

}  // namespace

void add_bench_muffin(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      bench.add_subcommand("muffin", "Muffin's comparison (ICSE 2022) on the libraries that are installed");
  auto options = std::make_shared<Options>();
  command->add_option("--workdir", options->bench.workdir, "Folder for the runs; finished ones are not run again")
      ->required();
  command->add_option("--mode", options->bench.modes, "layers, muffin, muffin-code, muffin-ut, lemon (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--environment", options->bench.environments, "E1 (newest) to E5 (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--models", options->bench.models, "Models per mode and environment (default 30; the paper: 300)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--seed", options->bench.seed, "The same seed makes the same models (default 1)");
  command->add_option("--format", options->format, "text, csv, markdown or json")
      ->check(CLI::IsMember({"text", "csv", "markdown", "json"}));
  command->add_option("-o,--output", options->output, "Write the tables to this file");
  command->callback([options, &exit_code] { exit_code = run_bench(*options); });
}

}  // namespace finity
