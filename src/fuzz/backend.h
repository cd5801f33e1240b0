// A library under test: which one it is, how it is started, and what it answers to a sample.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/worker.h"
#include "fuzz/sample.h"

namespace finity::fuzz {

// "ort@1.30.0", "torch".
struct BackendSpec {
  std::string family = {};
  std::string version = {};  // empty: the one that is installed

  std::string text() const { return version.empty() ? family : family + "@" + version; }
};

// "torch,ort@1.30.0". Throws Error naming what is not a backend.
std::vector<BackendSpec> parse_backends(std::string_view text);
// How to start it; nothing, with a reason, when it is not installed.
std::optional<WorkerOptions> find_backend(const BackendSpec& spec, std::string& why);
// Every version of a family that is installed, oldest first.
std::vector<BackendSpec> installed_versions(std::string_view family);

class Backend {
 public:
  Backend(BackendSpec spec, WorkerOptions options) : spec_(std::move(spec)), worker_(std::move(options)) {}

  const BackendSpec& spec() const { return spec_; }
  // Whether it changes graphs before it runs them, so that other levels are worth a look.
  bool optimises() const { return spec_.family == "ort"; }
  // `exposed`: every value that a step computes is asked for, which keeps optimisers from merging steps.
  Answer run(const Sample& sample, Optimisation level, bool exposed);
  Worker& worker() { return worker_; }

 private:
  BackendSpec spec_;
  Worker worker_;
};

// The value of that name among answers; absent when there is none.
Datum find(const NamedData& data, std::string_view name);

}  // namespace finity::fuzz
