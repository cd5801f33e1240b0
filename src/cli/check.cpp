#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "cli/check_run.h"
#include "cli/commands.h"
#include "cli/trigger_program.h"
#include "program/read_program.h"

namespace finity {

namespace {

struct Options {
  std::vector<std::string> models;
  CheckSettings settings;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
  std::string sarif_output, json_output, markdown_output;
  std::string keep_list;
  std::string colour = "auto";
  bool quiet = false;
  bool statistics = false;
  bool confirm = false;
};

struct Stream {
  const ReportFormat* format = nullptr;
  std::string file = {};  // "" is standard output
};

const ReportFormat* format_named(std::string_view name) {
  for (const ReportFormat& format : report_formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

const ReportFormat& format_of_file(const std::string& file) {
  for (const ReportFormat& format : report_formats()) {
    if (!format.extension.empty() && file.ends_with(format.extension)) return format;
  }
  throw Error("-o " + file + ": the name does not tell the format (.txt, .json, .sarif, .md); add --format");
}

// A single -o with --format is that format in that file; otherwise files go by their names and standard output
// gets --format.
std::vector<Stream> streams_of(const Options& options) {
  const ReportFormat* shown = format_named(options.format.value_or("text"));
  std::vector<Stream> streams;
  if (options.format && options.outputs.size() == 1) {
    streams.push_back({shown, options.outputs.front()});
  } else {
    streams.push_back({shown, ""});
    for (const std::string& file : options.outputs) streams.push_back({&format_of_file(file), file});
  }
  const auto add = [&](const char* format, const std::string& file) {
    if (!file.empty()) streams.push_back({format_named(format), file});
  };
  add("sarif", options.sarif_output);
  add("json", options.json_output);
  add("markdown", options.markdown_output);
  return streams;
}

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

void write(CheckResult& result, const Stream& stream, const Options& options) {
  const bool shown = stream.file.empty();
  result.colour = shown && wants_colour(options.colour);
  result.quiet = shown && options.quiet;
  result.statistics = options.statistics;
  result.errors_apart = shown;
  const std::string text = stream.format->write(result);
  if (shown) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(stream.file, text);
}

// The nodes to keep in their own format: one per line, or a JSON list.
void write_keep_list(const CheckResult& result, const std::string& file) {
  if (result.reports.empty() || !result.reports.front().error.empty()) return;
  const BlockList& list = result.reports.front().block_list;
  if (list.present && !list.proved) throw Error("--keep-list: no list of nodes was found that proves everything");
  std::string text;
  if (file.ends_with(".json")) text = nlohmann::json(list.nodes).dump(2) + "\n";
  else
    for (const std::string& name : list.nodes) text += name + "\n";
  write_file_atomically(file, text);
}

int check(Options& options) {
  const std::vector<Stream> streams = streams_of(options);
  if (!options.settings.values.empty() && options.models.size() > 1) throw Error("--values needs a single model");
  if (!options.settings.data.empty() && options.models.size() > 1) throw Error("--data needs a single model");
  load_config(options.settings);
  if (!options.keep_list.empty() && (!options.settings.as || options.models.size() != 1)) {
    throw Error("--keep-list needs --as and a single model");
  }
  CheckResult result = check_models(options.models, options.settings);
  int code = exit_code(result);
  for (const Stream& stream : streams) {
    try {
      write(result, stream, options);
    } catch (const Error& error) {
      std::fprintf(stderr, "finity: %s\n", error.what());
      code = 2;
    }
  }
  try {
    if (!options.keep_list.empty()) write_keep_list(result, options.keep_list);
  } catch (const Error& error) {
    std::fprintf(stderr, "finity: %s\n", error.what());
    code = 2;
  }
  std::fflush(stdout);
  print_problems(result);
  if (result.interrupted) finish_interrupted();
  return code;
}

// What check and trigger have in common.
void add_common_options(CLI::App& command, Options& options) {
  std::vector<std::string> formats;
  for (const ReportFormat& format : report_formats()) formats.emplace_back(format.name);
  command.add_option("models", options.models, "ONNX or text files")->required();
  add_model_options(command, options.settings);
  add_run_options(command, options.settings);
  CheckSettings& settings = options.settings;
  command
      .add_option("--fail-on", settings.fail_on,
                  "Exit 1 for unknown (default), only possible or only confirmed findings, and worse")
      ->check(CLI::IsMember({"confirmed", "possible", "unknown"}));
  command.add_option("--baseline", settings.baseline, "Accept the findings in this file (see finity baseline)");
  command.add_option("--max-findings", settings.max_findings, "Findings printed per model (default 10; 0: all)");
  command.add_option("--witness", settings.witness,
                     "Write inputs on which findings came true into this folder: .npz and test_data_set_0");
  command
      .add_option(
          "--data", settings.data,
          "Run the model on these inputs too: .npz, a folder of them, or ONNX test data (repeatable); a single model")
      ->allow_extra_args(false);
  command.add_option("--seed", settings.seed, "For runs on random inputs (default 0)");
  command.add_option("--site", settings.sites, "Search only here: a node, what it computes, or a rule (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--engine", settings.engine, "What computes the slopes of a search: auto, reference or torch")
      ->check(CLI::IsMember({"auto", "reference", "torch"}));
  command.add_option("--format", options.format, "text, json, sarif, github or markdown")
      ->check(CLI::IsMember(formats));
  command.add_option("-o,--output", options.outputs, "Write to this file, format by --format or name (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--sarif-output", options.sarif_output, "Also write SARIF to this file");
  command.add_option("--json-output", options.json_output, "Also write JSON to this file");
  command.add_option("--markdown-output", options.markdown_output, "Also write Markdown to this file");
  command.add_option("--keep-list", options.keep_list,
                     "With --as: write the nodes to keep in their own format to this file, one per line or as .json");
  command.add_flag("-q,--quiet", options.quiet, "Print findings and nothing else");
  command.add_flag("--statistics", options.statistics, "Print counts per rule instead of findings");
  command.add_option("--color", options.colour, "auto (default: only on a terminal), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

constexpr double kSearchSeconds = 30;

// For descriptions of training programs.
void add_program_options(CLI::App& command, ProgramSettings& own) {
  command
      .add_option("--strategy", own.strategy, "Of programs: auto (default), grist, grist-ns, or default: only train")
      ->check(CLI::IsMember({"default", "grist", "grist-ns", "auto"}));
  command.add_option("--epsilon", own.epsilon, "Of programs: size of grist's sign steps (default 0.15)")
      ->check(CLI::PositiveNumber);
  command.add_option("--switch-rate", own.switch_rate, "Of programs: share of samples grist exchanges (default 0.05)")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option(
          "--clock", own.clock,
          "Of programs: what seconds are, wall (default) or processor: of the searching process, whoever else is busy")
      ->check(CLI::IsMember({"wall", "processor"}));
}

int search_program_file(const Options& options, const ProgramSettings& own) {
  if (options.models.size() != 1) throw Error("trigger takes one program at a time");
  const std::string format = options.format.value_or("text");
  if (format != "text" && format != "json") throw Error("--format: programs are reported as text or json");
  return trigger_program(options.models.front(), options.settings, own, format == "json");
}

// A TensorFlow graph that holds its own training; nothing for every other model, and with options that speak of models
// alone.
std::optional<int> search_training_graph(const Options& options, const ProgramSettings& own) {
  const std::string format = options.format.value_or("text");
  const bool about_models = options.settings.as || options.settings.train || options.settings.weights ||
                            !options.settings.data.empty() || (format != "text" && format != "json");
  if (options.models.size() != 1 || about_models) return std::nullopt;
  CheckSettings settings = options.settings;
  load_config(settings);
  return trigger_training_graph(options.models.front(), settings, own, format == "json");
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("check", "Prove or question every numerical hazard of models");
  auto options = std::make_shared<Options>();
  add_common_options(*command, *options);
  CheckSettings& settings = options->settings;
  command->add_option("--verify", settings.verify, "Evaluate this many random inputs and compare with the ranges")
      ->check(CLI::Range(0, 1'000'000));
  command
      ->add_option("--values", settings.values,
                   "Compare the tensors of a real run with the ranges: .npz, or folder of .pb files (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--confirm", options->confirm,
                    "Search for inputs on which findings come true, 30 seconds or what --time-limit leaves");
  command->callback([options, &exit_code] {
    if (options->confirm) options->settings.confirm = kSearchSeconds;
    else if (!options->settings.sites.empty()) throw Error("--site needs --confirm");
    exit_code = check(*options);
  });
}

void add_trigger(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("trigger", "Find inputs on which models really fail: check, then search where it is not sure");
  auto options = std::make_shared<Options>();
  auto own = std::make_shared<ProgramSettings>();
  add_common_options(*command, *options);
  add_program_options(*command, *own);
  command->callback([options, own, &exit_code] {
    options->settings.confirm = kSearchSeconds;
    if (std::ranges::any_of(options->models, is_program_file)) {
      exit_code = search_program_file(*options, *own);
    } else if (const std::optional<int> code = search_training_graph(*options, *own)) {
      exit_code = *code;
    } else {
      exit_code = check(*options);
    }
  });
}

}  // namespace finity
