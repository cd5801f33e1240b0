#include "muffin/run.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "muffin/lemon.h"
#include "muffin/record.h"

namespace finity::muffin {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<fuzz::Backend> open_backends(const RunOptions& options, const RunHooks& hooks) {
  std::vector<fuzz::Backend> backends;
  for (const fuzz::BackendSpec& spec : options.backends) {
    try {
      backends.push_back(options.open ? options.open(spec) : fuzz::Backend(spec));
      backends.back().worker().hello();
    } catch (const NotInstalled& missing) {
      if (hooks.note) hooks.note(spec.text() + " is skipped: " + missing.what());
    }
  }
  if (backends.empty()) throw Error("none of the backends is installed");
  return backends;
}

std::string configuration(const RunOptions& options) {
  std::string text = "finity " + options.version + " mode " + options.mode + " seed " + std::to_string(options.seed) +
                     " data " + (options.data.empty() ? "all" : options.data) + " backends";
  for (const fuzz::BackendSpec& spec : options.backends) text += " " + spec.text();
  return text + ", flags looked into";  // which runs of before do not have
}

std::string database_in(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(folder + ": " + failed.message());
  return (fs::path(folder) / "muffin.sqlite").string();
}

}  // namespace

RunProgress run_baseline(const RunOptions& options, const RunHooks& hooks) {
  std::unique_ptr<Source> source =
      make_source(options.mode,
                  {.seed = options.seed, .data = options.data, .libraries = static_cast<int>(options.backends.size())});
  Record record(database_in(options.workdir), configuration(options), options.resume);
  std::vector<fuzz::Backend> backends = open_backends(options, hooks);
  // What comes next depends on what came before.
  for (std::int64_t i = 0; i < record.models(); ++i) {
    source->next();
    source->hear(record.heard(i));
  }
  RunProgress progress;
  const Clock::time_point start = Clock::now();
  const auto update = [&] {
    progress.models = record.models();
    progress.seconds = seconds_since(start);
    progress.inconsistencies = record.inconsistencies();
    progress.nans = record.count("(SELECT DISTINCT backend, kind FROM nan_layer)");
    progress.crashes = record.count("(SELECT DISTINCT backend, stage, message FROM crash)");
    progress.layers = record.layer_types();
    if (hooks.progress) hooks.progress(progress);
  };
  while (!(hooks.stop && hooks.stop()) && (options.models == 0 || record.models() < options.models) &&
         (options.seconds == 0 || seconds_since(start) < options.seconds)) {
    const Model model = source->next();
    const Prepared prepared(model);
    std::vector<Trace> traces;
    std::vector<double> milliseconds;
    for (fuzz::Backend& backend : backends) {
      const Clock::time_point begin = Clock::now();
      traces.push_back(run_model(backend, prepared, source->forward_only()));
      milliseconds.push_back(1000 * seconds_since(begin));
    }
    const double distance = lemon_distance(model, traces);
    source->hear(distance);
    record.add(model, traces, judge_traces(model, traces, options.rules), distance, milliseconds);
    ++progress.this_run;
    update();
  }
  update();
  return progress;
}

}  // namespace finity::muffin
