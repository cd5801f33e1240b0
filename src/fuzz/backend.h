// A library under test: which one it is, how it is started, and what it answers to a sample.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/backends.h"
#include "fuzz/sample.h"

namespace finity::fuzz {

// What is said of a process that somebody ended, or a system that is short of memory: no library does that to itself.
bool ended_from_outside(std::string_view text);

// A library and its version as the campaign names it.
struct BackendSpec {
  std::string family = {};   // "ort"
  std::string version = {};  // empty: there is one

  std::string text() const { return version.empty() ? family : family + "@" + version; }
};

// "torch,ort@1.30.0". Throws Error naming what is not a backend. Versions that are not said are filled in.
std::vector<BackendSpec> parse_specs(std::string_view text);
// Every version of a family that is installed, oldest first.
std::vector<BackendSpec> installed_versions(std::string_view family);

class Backend {
 public:
  // Throws NotInstalled with what to do.
  explicit Backend(BackendSpec spec);
  Backend(BackendSpec spec, finity::Backend backend) : spec_(std::move(spec)), backend_(std::move(backend)) {}

  const BackendSpec& spec() const { return spec_; }
  // Whether it changes graphs before it runs them, so that other levels are worth a look.
  bool optimises() const { return backend_.kind().levels; }
  bool derives() const { return backend_.kind().derives; }
  // `exposed`: every value that a step computes is asked for, which keeps optimisers from merging steps.
  Answer run(const Sample& sample, Optimisation level, bool exposed);
  // Derivatives of an output with one element, by inputs and weights.
  Answer derive(const Sample& sample, const std::string& output, const std::vector<std::string>& names);
  // The library's own calls that the sample comes to, in a form that it runs without finity; empty when there is none.
  std::string script(const Sample& sample);
  Worker& worker() { return backend_.worker(); }
  // The next request goes to a new process.
  void restart();

 private:
  BackendSpec spec_;
  finity::Backend backend_;
};

// The value of that name among answers; absent when there is none.
Datum find(const NamedData& data, std::string_view name);

}  // namespace finity::fuzz
