// finity bench debar: the evaluation of DEBAR (ESEC/FSE 2020) measured anew, on its nine architectures with known bugs
// and on folders of graphs.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "bench/debar_graphs.h"
#include "bench/debar_report.h"
#include "cli/commands.h"
#include "cli/pool.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder;
  std::string labels;
  std::vector<std::string> only;
  std::string settings = "all";
  double time_limit = 60;
  std::string format = "text";
  std::string output;
  std::string write;
  bool twins = false;
};

std::vector<DebarSetting> settings_of(const std::string& which) {
  std::vector<DebarSetting> settings;
  if (which == "strongest") return {DebarSetting{}};
  settings = debar_combinations();
  if (which == "combinations") return settings;
  const std::vector<DebarSetting> ablations = debar_ablations();
  settings.insert(settings.end(), ablations.begin(), ablations.end());
  return settings;
}

DebarLabelFile labels_of(const std::string& path) {
  if (path.empty()) return {};
  const auto file = MappedFile::open(path);
  return read_debar_labels({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

std::vector<DebarSubject> subjects_of(const Options& options) {
  std::vector<DebarSubject> subjects;
  if (!options.folder.empty()) {
    subjects = folder_subjects(options.folder, labels_of(options.labels));
  } else {
    if (!options.labels.empty()) throw Error("--labels belongs to a folder of graphs");
    subjects = debar_subjects(options.twins);
  }
  if (options.only.empty()) return subjects;
  for (const std::string& pattern : options.only) {
    const auto matches = [&](const DebarSubject& s) { return matches_glob(pattern, s.name); };
    if (std::ranges::none_of(subjects, matches)) throw Error("--only: there is no graph '" + pattern + "'");
  }
  std::erase_if(subjects, [&](const DebarSubject& subject) {
    return std::ranges::none_of(options.only, [&](const std::string& p) { return matches_glob(p, subject.name); });
  });
  return subjects;
}

void write_graphs(const std::string& folder) {
  fs::create_directories(folder);
  for (const DebarGraph& graph : debar_graphs()) {
    write_file_atomically((fs::path(folder) / (graph.name + ".pbtxt")).string(), graph.make(false));
    write_file_atomically((fs::path(folder) / (graph.name + "-repaired.pbtxt")).string(), graph.make(true));
  }
  std::printf("%s: %zu graphs and their repaired twins; try finity check %s\n", folder.c_str(), debar_graphs().size(),
              (fs::path(folder) / (debar_graphs().front().name + ".pbtxt")).c_str());
}

// One at a time, because memory is measured of the whole process.
bool measure_all(DebarReport& report) {
  const std::size_t each = report.subjects.size();
  report.results.resize(report.settings.size());
  for (std::vector<DebarResult>& results : report.results) results.reserve(each);
  const auto job = [&](std::size_t i) {
    report.results[i / each].push_back(measure(report.subjects[i % each], report.settings[i / each], report.limit));
  };
  const auto label = [&](std::size_t i) {
    return report.subjects[i % each].name + ", " + report.settings[i / each].name();
  };
  const PoolOutcome outcome = run_jobs(each * report.settings.size(), 1, job, label);
  return !outcome.interrupted;
}

// What the known bugs and their twins owe: every bug reported at its operation, every twin proved.
bool as_expected(const DebarReport& report) {
  bool good = true;
  std::set<std::string> said;
  for (const std::vector<DebarResult>& results : report.results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].error.empty()) {
        if (said.insert(results[i].error).second) std::fprintf(stderr, "finity: %s\n", results[i].error.c_str());
        good = false;
      }
      good = good && score(report.subjects[i], results[i]).false_negatives == 0;
    }
  }
  return good;
}

int bench_debar(const Options& options) {
  DebarReport report = {
      .subjects = subjects_of(options), .settings = settings_of(options.settings), .limit = options.time_limit};
  const bool finished = measure_all(report);
  const std::string text = debar_in_format(report, options.format);
  if (options.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(options.output, text);
  std::fflush(stdout);
  if (!finished) {
    std::fprintf(stderr, "finity: interrupted; what was finished is above\n");
    std::_Exit(2);
  }
  return as_expected(report) ? 0 : 1;
}

}  // namespace

void add_bench_debar(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "debar", "The evaluation of DEBAR (ESEC/FSE 2020): its nine known bugs, or a folder of graphs");
  auto options = std::make_shared<Options>();
  command->add_option("folder", options->folder, "Folder of models; without: the nine architectures with known bugs");
  command->add_option("--labels", options->labels, "Reviewed labels of a folder's sites and what its inputs hold");
  command->add_option("--only", options->only, "Graphs by name or glob, repeatable or with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--settings", options->settings,
                   "all (default): six combinations, and without input or parameter ranges; combinations; strongest")
      ->check(CLI::IsMember({"all", "combinations", "strongest"}));
  command->add_flag("--twins", options->twins, "The repaired twins of the nine instead");
  command->add_option("--time-limit", options->time_limit, "Seconds per graph and setting (default 60)")
      ->check(CLI::Range(0.01, 86400.0));
  command->add_option("--format", options->format, "text, csv, markdown or json")
      ->check(CLI::IsMember({"text", "csv", "markdown", "json"}));
  command->add_option("-o,--output", options->output, "Write the table to this file");
  command->add_option("--write", options->write,
                      "Write the nine graphs and their twins into this folder, check nothing");
  command->callback([options, &exit_code] {
    if (!options->write.empty()) write_graphs(options->write);
    else exit_code = bench_debar(*options);
  });
}

}  // namespace finity
