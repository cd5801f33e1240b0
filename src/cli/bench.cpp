// finity bench grist: the 79 bugs of the GRIST benchmark, checked and searched for, beside the published numbers.
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
#include "bench/bench_report.h"
#include "bench/bench_run.h"
#include "bench/recipe.h"
#include "cli/commands.h"
#include "cli/pool.h"
#include "exec/torch_worker.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> only;
  std::vector<std::string> strategies = {"auto"};
  int seeds = 1;
  double timeout = 30;
  std::string data;
  std::string format = "text";
  std::string engine = "auto";
  std::string clock = "processor";
  std::string output;
  std::string resume;
  std::string folder;
  bool sweep = false;
  bool strict = false;
};

BenchOptions bench_options(const Options& options) {
  BenchOptions bench = {.only = options.only, .seeds = options.seeds, .limit = options.timeout, .sweep = options.sweep};
  if (!options.data.empty()) bench.data = "MNIST";
  bench.strict = options.strict;
  bench.clock = options.clock == "wall" ? ClockKind::wall : ClockKind::processor;
  for (const std::string& strategy : options.strategies) {
    if (strategy == "none") continue;
    if (strategy == "all")
      bench.strategies = {Strategy::plain, Strategy::grist, Strategy::grist_ns, Strategy::automatic};
    else bench.strategies.push_back(strategy_from_name(strategy));
  }
  return bench;
}

void write_programs(const Options& options) {
  const DigitData digits = load_digits(options.data);
  const std::vector<const GristBug*> bugs = chosen_bugs(options.only);
  for (const GristBug* bug : bugs) {
    for (const bool repaired : {false, true}) {
      const std::string name = bug->id + (repaired ? "-repaired" : "");
      const Recipe recipe = bug->make({.repaired = repaired});
      write_folder(folder_of(recipe, digits), (fs::path(options.folder) / name).string());
    }
  }
  std::printf("%s: %zu programs and their repaired twins; try finity trigger %s\n", options.folder.c_str(), bugs.size(),
              (fs::path(options.folder) / bugs.front()->id / kDescriptionFile).c_str());
}

std::vector<BenchRun> runs_of_before(const std::string& path) {
  if (path.empty() || !fs::exists(path)) return {};
  const auto file = MappedFile::open(path);
  return runs_from_json_lines({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

std::string line_of(const BenchRun& run) {
  std::string text = run.bug + ", " + run.strategy + ", seed " + std::to_string(run.seed) + ": ";
  if (!run.error.empty()) return text + "could not run: " + run.error;
  char seconds[80];
  std::snprintf(seconds, sizeof seconds, "%.2f s (%.2f on the wall), %llu passes", run.seconds, run.wall_seconds,
                static_cast<unsigned long long>(run.iterations));
  if (!run.hit) return text + "missed after " + seconds + (run.closest.empty() ? "" : "; closest: " + run.closest);
  return text + "hit after " + seconds + ", at '" + run.node + "'" + (run.confirmed ? "" : ", not repeated");
}

// The engine on LibTorch, when it is there and wanted. The search keeps its own time.
std::unique_ptr<Worker> engine_of(const Options& options) {
  if (options.engine == "reference") return nullptr;
  std::optional<WorkerOptions> worker = torch_worker();
  if (!worker && options.engine == "torch") throw Error("--engine torch: " + std::string(kNoTorchWorker));
  if (!worker) {
    std::fprintf(stderr, "note: %s\n", std::string(kNoTorchWorker).append(kInsteadOfTorch).c_str());
    return nullptr;
  }
  constexpr double kConfirming = 120;
  worker->seconds = options.timeout + kConfirming;
  worker->cpu_seconds = 0;
  return std::make_unique<Worker>(*worker);
}

// The runs that are asked for: those that a file has, and the others.
class Searches {
 public:
  Searches(const Options& options, const BenchOptions& bench)
      : options_(options),
        runs_(planned_runs(bench)),
        known_(runs_of_before(options.resume)),
        engine_(engine_of(options)) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto same = [&](const BenchRun& run) { return run.asks_the_same(runs_[i]); };
      const auto found = std::ranges::find_if(known_, same);
      if (found != known_.end()) runs_[i] = *found;
      else open_.push_back(i);
    }
  }

  // What is finished; the rest was interrupted.
  std::vector<BenchRun> run(bool& interrupted) {
    if (!open_.empty()) {
      bench_ = std::make_unique<Bench>(
          load_digits(options_.data), [this](const Program& program, const ProgramSearch& search) {
            ProgramSearch asked = search;
            asked.progress = [](double, std::uint64_t, double) { return !interrupt_wanted(); };
            return search_program(program, asked, engine_.get());
          });
      for (const BenchRun& run : known_) bench_->remember(run);
      const auto job = [&](std::size_t i) { one(*bench_, runs_[open_[i]]); };
      const auto label = [&](std::size_t i) { return runs_[open_[i]].bug + " " + runs_[open_[i]].strategy; };
      constexpr double kGrace = 10;
      const PoolOutcome outcome = run_jobs(open_.size(), 1, job, label, kGrace);
      interrupted = outcome.interrupted || interrupt_wanted();
      std::set<std::size_t> left = stopped_;
      for (std::size_t i = 0; i < open_.size(); ++i) {
        if (!outcome.finished[i]) left.insert(open_[i]);
      }
      // A search that did not end in time still writes into its run.
      std::vector<BenchRun> ended;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        if (!left.contains(i)) ended.push_back(runs_[i]);
      }
      return ended;
    }
    return runs_;
  }

 private:
  void one(Bench& bench, BenchRun& run) {
    bench.run(run);
    const std::size_t at = static_cast<std::size_t>(&run - runs_.data());
    // A search that was cut short says nothing.
    if (interrupt_wanted() && !run.hit) {
      stopped_.insert(at);
      return;
    }
    // What could not be run is tried again the next time.
    if (run.error.empty()) known_.push_back(run);
    if (!options_.resume.empty()) write_file_atomically(options_.resume, to_json_lines(known_));
    if (::isatty(STDERR_FILENO) == 0) {
      std::fprintf(stderr, "%zu/%zu %s\n", ++finished_, open_.size(), line_of(run).c_str());
    }
  }

  const Options& options_;
  std::vector<BenchRun> runs_;
  std::vector<BenchRun> known_;  // also those of other questions, which the file keeps
  std::unique_ptr<Worker> engine_;
  std::unique_ptr<Bench> bench_ = {};
  std::vector<std::size_t> open_ = {};
  std::set<std::size_t> stopped_ = {};
  std::size_t finished_ = 0;
};

int bench_grist(const Options& options) {
  const BenchOptions bench = bench_options(options);
  std::map<std::string, StaticVerdict> verdicts;
  if (!options.sweep) {
    for (const GristBug* bug : chosen_bugs(options.only)) verdicts.emplace(bug->id, check_bug(*bug));
  }
  bool interrupted = false;
  std::vector<BenchRun> runs;
  if (!bench.strategies.empty() || bench.sweep) {
    auto searches = std::make_unique<Searches>(options, bench);
    runs = searches->run(interrupted);
    // What was interrupted may not have ended yet, and needs it until the process does.
    if (interrupted) static_cast<void>(searches.release());
  }
  const BenchReport report = bench_report(bench, runs, verdicts);
  const std::string text = bench_in_format(report, options.format);
  if (options.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  else write_file_atomically(options.output, text);
  std::fflush(stdout);
  if (interrupted) {
    std::fprintf(stderr, "finity: interrupted; the runs that were finished are above\n");
    std::_Exit(2);
  }
  const bool missed = std::ranges::any_of(runs, [](const BenchRun& run) { return !run.hit; });
  const auto rows = static_cast<int>(report.rows.size());
  return missed || report.found < rows || report.repairs_proved < rows ? 1 : 0;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure finity on a published benchmark");
  command->require_subcommand(1);
  add_bench_debar(*command, exit_code);
  CLI::App* grist = command->add_subcommand("grist", "The 63 programs with 79 bugs of GRIST (ESEC/FSE 2021)");
  auto options = std::make_shared<Options>();
  grist->add_option("--only", options->only, "Bugs (35a) or programs (35), repeatable or with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  grist
      ->add_option("--strategy", options->strategies,
                   "auto (default), default, grist, grist-ns, all; none: only what check says")
      ->delimiter(',')
      ->allow_extra_args(false);
  grist->add_option("--seeds", options->seeds, "Runs per bug and strategy (default 1)")->check(CLI::Range(1, 1000));
  grist->add_option("--timeout", options->timeout, "Seconds per run (default 30)")->check(CLI::Range(0.01, 86400.0));
  grist
      ->add_option("--clock", options->clock,
                   "What seconds are: processor (default: of the searching process, whoever else is busy) or wall")
      ->check(CLI::IsMember({"processor", "wall"}));
  grist->add_option("--data", options->data, "Folder with MNIST's idx files; without: drawn digits");
  grist->add_option("--engine", options->engine, "What runs the programs: auto, reference or torch")
      ->check(CLI::IsMember({"auto", "reference", "torch"}));
  grist->add_flag("--sweep", options->sweep, "The paper's study of epsilon and switch rate on 3, 18 and 35a instead");
  grist->add_flag("--strict", options->strict,
                  "Only failures at the bug's own operation count, not any failure of the program as in the paper");
  grist->add_option("--format", options->format, "text, csv, markdown or json")
      ->check(CLI::IsMember({"text", "csv", "markdown", "json"}));
  grist->add_option("-o,--output", options->output, "Write the table to this file");
  grist->add_option("--resume", options->resume, "Keep finished runs in this file, and go on from it");
  grist->add_option("--write", options->folder, "Write the programs into this folder for finity trigger, run nothing");
  grist->callback([options, &exit_code] {
    if (!options->folder.empty()) write_programs(*options);
    else exit_code = bench_grist(*options);
  });
  add_bench_muffin(*command, exit_code);
}

}  // namespace finity
