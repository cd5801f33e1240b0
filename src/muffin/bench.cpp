#include "muffin/bench.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace finity::muffin {

std::vector<Environment> bench_environments() {
  return {{"E1", "torch,ort@1.30.0,tfjs-cpu@4.22.0"},
          {"E2", "torch,ort@1.23.2,tfjs-cpu@4.10.0"},
          {"E3", "torch,ort@1.17.3,tfjs-cpu@3.21.0"},
          {"E4", "torch,ort@1.14.0,tfjs-cpu@3.11.0"},
          {"E5", "torch,ort@1.12.1,tfjs-cpu@2.8.6"}};
}

namespace {

std::vector<Environment> chosen(const std::vector<std::string>& names) {
  const std::vector<Environment> all = bench_environments();
  std::vector<Environment> result;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &Environment::name);
    if (found == all.end()) throw Error("there is no environment '" + name + "': E1 to E" + std::to_string(all.size()));
    result.push_back(*found);
  }
  return names.empty() ? all : result;
}

}  // namespace

std::vector<Table> bench_muffin(const BenchMuffinOptions& options, const RunHooks& hooks) {
  std::vector<RunName> runs;
  const std::vector<Environment> environments = chosen(options.environments);
  for (const std::string& mode : options.modes) make_source(mode, {});
  for (const Environment& environment : environments) {
    for (const std::string& mode : options.modes) {
      if (hooks.stop && hooks.stop()) break;
      RunOptions run{.version = options.version,
                     .mode = mode,
                     .seed = options.seed,
                     .models = options.models,
                     .workdir = (std::filesystem::path(options.workdir) / (environment.name + "-" + mode)).string(),
                     .backends = fuzz::parse_specs(environment.backends),
                     .resume = true};
      if (hooks.note) hooks.note(environment.name + " (" + environment.backends + "), " + mode);
      run_baseline(run, hooks);
      runs.push_back({environment.name, mode, run.workdir});
    }
  }
  return tables_of(runs);
}

}  // namespace finity::muffin
