// The paper's comparison on libraries that can be installed: every mode in several environments, each environment three
// libraries of about one time. Runs are kept in a folder and gone on with.
#pragma once

#include <string>
#include <vector>

#include "muffin/run.h"
#include "muffin/tables.h"

namespace finity::muffin {

struct Environment {
  std::string name = {};      // "E1"
  std::string backends = {};  // "torch,ort@1.30.0,tfjs-cpu@4.22.0"
};
// Five, the newest first.
std::vector<Environment> bench_environments();

struct BenchMuffinOptions {
  std::string version = {};
  std::vector<std::string> modes = {"layers", "muffin", "muffin-code", "muffin-ut", "lemon"};
  std::vector<std::string> environments = {};  // names; empty: all
  std::int64_t models = 30;                    // per mode and environment
  std::uint64_t seed = 1;
  std::string workdir = {};
};

// Throws Error naming a mode or environment that there is not. Interrupted runs are in the tables as far as they came.
std::vector<Table> bench_muffin(const BenchMuffinOptions& options, const RunHooks& hooks);

}  // namespace finity::muffin
