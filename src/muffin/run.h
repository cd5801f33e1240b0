// A run of one baseline: models one after the other, put before all libraries and judged by Muffin's rules; what was
// seen stands in muffin.sqlite in the work folder. Each model is one transaction: a run that is killed goes on where it
// was, and two runs of one seed have the same contents but for times.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muffin/generator.h"
#include "muffin/source.h"
#include "muffin/verdict.h"

namespace finity::muffin {

struct RunOptions {
  std::string version = {};  // of finity
  std::string mode = "muffin";
  std::uint64_t seed = 1;
  std::string data = {};  // empty: data sets take turns
  std::int64_t models = 0;
  double seconds = 0;
  std::string workdir = {};
  std::vector<fuzz::BackendSpec> backends = {};
  Rules rules = {};
  bool resume = false;
  std::function<fuzz::Backend(const fuzz::BackendSpec&)> open = {};  // how a backend is started, when not as usual
};

struct RunProgress {
  std::int64_t models = 0, this_run = 0;
  double seconds = 0;
  std::int64_t inconsistencies = 0, nans = 0, crashes = 0;  // distinct ones
  std::int64_t layers = 0;                                  // layer types used
};

struct RunHooks {
  std::function<void(const RunProgress&)> progress = {};
  std::function<void(const std::string&)> note = {};
  std::function<bool()> stop = {};
};

// Throws Error when the work folder holds another run, or fewer than one backend can be started.
RunProgress run_baseline(const RunOptions& options, const RunHooks& hooks);

}  // namespace finity::muffin
