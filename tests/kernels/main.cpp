// kernels [--version V | --library FILE] [--op NAME] [--file STEM] [--seed N] [--mixes N] [--calls N]
//         [--graphs N] [--step N] [--update] [--examples]
// Runs every op of the table in ONNX Runtime and compares what it computes with what the analysis claims. The
// table says what is known; a difference from it fails. docs/testing.md.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "base/error.h"
#include "kernels/table.h"
#include "kernels/trial.h"
#include "ops/table/op.h"
#include "support/paths.h"

namespace {

namespace fs = std::filesystem;
using namespace finity;
using namespace finity::kernels;

struct Options {
  std::string version = "1.30.0";
  std::string library = {};  // instead of the one that tools/onnxruntime finds
  std::string op = {};       // only this one
  std::string file = {};     // only this file of cases
  bool update = false;
  bool examples = false;
  std::uint64_t calls = 60;    // random ones of each op
  std::uint64_t graphs = 400;  // random ones
  std::uint64_t step = 64;     // of the runs of neighbouring numbers, one in so many
  TrialOptions trial = {};
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw Error(argument + " wants a value");
      return std::string(argv[++i]);
    };
    if (argument == "--version") options.version = value();
    else if (argument == "--library") options.library = value();
    else if (argument == "--op") options.op = value();
    else if (argument == "--file") options.file = value();
    else if (argument == "--seed") options.trial.seed = std::stoull(value());
    else if (argument == "--mixes") options.trial.mixes = std::stoi(value());
    else if (argument == "--calls") options.calls = std::stoull(value());
    else if (argument == "--graphs") options.graphs = std::stoull(value());
    else if (argument == "--step") options.step = std::max<std::uint64_t>(std::stoull(value()), 1);
    else if (argument == "--update") options.update = true;
    else if (argument == "--examples") options.examples = true;
    else throw Error("unknown option " + argument);
  }
  return options;
}

// Downloads it when it is not there.
std::string find_library(const std::string& version) {
  if (version.find_first_not_of("0123456789.") != std::string::npos) throw Error("'" + version + "' is no version");
  const std::string command = root_folder() + "/tools/onnxruntime " + version;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string path(4096, '\0');
  const std::size_t count = pipe == nullptr ? 0 : std::fread(path.data(), 1, path.size(), pipe);
  if (pipe == nullptr || ::pclose(pipe) != 0 || count == 0) throw Error("there is no ONNX Runtime " + version);
  path.resize(path.find_first_of(std::string("\n\0", 2)));
  return path;
}

std::vector<fs::path> case_files(const Options& options) {
  std::vector<fs::path> files;
  for (const char* folder : {"ops", "kernels"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(testdata_folder()) / folder)) {
      const bool wanted = options.file.empty() || entry.path().stem() == options.file;
      if (entry.path().extension() == ".txt" && wanted) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

Results run_all(Worker& worker, const Options& options) {
  Results results;
  const Visitor visit = [&](const Subject& subject) {
    if (!options.op.empty() && subject.op != options.op) return;
    try_subject(worker, subject, options.trial, results[{subject.op, subject.dtype}]);
  };
  // Most random calls are none that a runtime accepts, which says nothing.
  const Visitor visit_if_accepted = [&](const Subject& subject) {
    if (!options.op.empty() && subject.op != options.op) return;
    Tally tally;
    try_subject(worker, subject, options.trial, tally);
    if (tally.runs > 0 || tally.crashed > 0) results[{subject.op, subject.dtype}].add(tally);
  };
  for (const fs::path& file : case_files(options)) {
    const bool graphs = file.parent_path().filename() == "kernels";
    (graphs ? each_graph : each_case)(file, options.trial.seed, visit);
    std::fprintf(stderr, "%s done\n", file.stem().c_str());
  }
  const bool all = options.file.empty();
  if (all || options.file == "sweep") each_sweep(options.trial.seed, options.step, visit);
  if (all || options.file == "random") {
    each_random_call(options.trial.seed, options.calls, visit_if_accepted);
    each_random_graph(options.trial.seed, options.graphs, visit);
  }
  return results;
}

void print_examples(const Results& results) {
  for (const auto& [key, tally] : results) {
    for (const auto& [kind, escape] : tally.escapes) {
      if (!escape.level.empty() && tally.escapes.contains(escape.kind + " ")) continue;  // seen as written
      std::printf("---- %s %s: %s, %d times of %d runs\n%s\n", key.op.c_str(), key.dtype.c_str(), kind.c_str(),
                  escape.count, tally.runs, escape.example.c_str());
    }
    if (tally.refused > 0)
      std::printf("---- %s %s: refused %d times: %s\n", key.op.c_str(), key.dtype.c_str(), tally.refused,
                  tally.first_refusal.c_str());
    if (tally.crashed > 0)
      std::printf("---- %s %s: crashed %d times: %s\n\n", key.op.c_str(), key.dtype.c_str(), tally.crashed,
                  tally.first_crash.c_str());
  }
}

void print_summary(const Results& results, const Hello& hello) {
  std::map<std::string, int> outcomes;
  Tally all;
  for (const auto& [key, tally] : results) {
    const std::string outcome = outcome_of(tally);
    ++outcomes[outcome.substr(0, outcome.find(':'))];
    all.add(tally);
  }
  std::printf("%s %s: %zu ops and formats, %d cases, %d runs, %zu tensors compared (of %zu nothing is claimed)\n",
              hello.engine.c_str(), hello.version.c_str(), results.size(), all.cases, all.runs, all.judged.tensors,
              all.judged.vacuous);
  for (const auto& [outcome, count] : outcomes) std::printf("  %5d %s\n", count, outcome.c_str());
}

int run(int argc, char** argv) {
  Options options = parse(argc, argv);
  if (options.library.empty()) options.library = find_library(options.version);
  Worker worker({.command = {FINITY_ORT_WORKER, options.library}, .cpu_seconds = 2, .seconds = 60});
  const Hello hello = worker.hello();
  Results results = run_all(worker, options);
  const bool whole = options.op.empty() && options.file.empty();
  if (whole) add_ops_without_cases(results);
  if (options.examples) print_examples(results);
  print_summary(results, hello);
  const std::string path = testdata_folder() + "/kernels/" + hello.engine + "-" + hello.version + ".tsv";
  if (options.update && whole) {
    write_table(path, results, fs::exists(path) ? read_table(path) : Table{}, hello);
    return 0;
  }
  const std::vector<std::string> differences = compare(results, fs::exists(path) ? read_table(path) : Table{}, whole);
  for (const std::string& line : differences) std::printf("%s\n", line.c_str());
  return differences.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return 2;
  }
}
