// The libraries that models can be run in, by name: "torch", "ort@1.30.0", "tfjs-wasm@4.22.0". Each runs in a worker
// process (exec/worker.h). Some are linked to the worker when finity is built; of the others several versions can be
// installed side by side, each in a folder of the cache (backends/install.h).
//
//   Backend backend = open_backend("ort@1.30.0");          // throws NotInstalled, which says what to do
//   const Answer answer = backend.worker().run({.model = write_onnx(graph), .run = {...}});
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "exec/worker.h"

namespace finity {

// What is known of a library before it is started.
struct BackendKind {
  std::string_view name;     // as people write it
  std::string_view library;  // for people
  std::string_view program;  // the worker beside finity, or the script that `runner` runs
  std::string_view runner = {};
  std::string_view option = {};   // of the worker
  std::string_view install = {};  // folders in the cache are "tfjs-4.22.0"; empty: linked to the worker
  std::string_view needs = {};    // what is missing when a linked worker was not built
  std::string_view voter = {};    // libraries that compute with the same code have one voice
  bool levels = false;            // its answers may depend on Optimisation
  bool derives = false;           // it answers Worker::gradient
};
std::span<const BackendKind> backend_kinds();

// A library and which of its versions; no version: the one it is linked to, or the newest that is installed.
struct BackendName {
  const BackendKind* kind = nullptr;
  std::string version = {};
};
// Throws Error with what was probably meant.
BackendName parse_backend(std::string_view text);
// Names separated by commas, each once.
std::vector<BackendName> parse_backends(std::string_view text);
std::string to_string(const BackendName& name);

// Everything that could be started now, with versions where several may be installed; in the order of the kinds, newest
// first.
std::vector<BackendName> installed_backends();

// Thrown for a backend that is not there; the text says how to get it.
class NotInstalled : public Error {
 public:
  using Error::Error;
};

class Backend {
 public:
  Backend(BackendName name, WorkerOptions options)
      : name_(std::move(name)), command_(options.command), worker_(std::move(options)) {}

  const BackendKind& kind() const { return *name_.kind; }
  // With its version: "ort@1.30.0", "torch@1.13.1". Starts the process if need be.
  std::string name();
  Worker& worker() { return worker_; }
  const std::vector<std::string>& command() const { return command_; }

 private:
  BackendName name_;
  std::vector<std::string> command_;
  Worker worker_;
};

// The process starts with the first request. `limits` are those of the worker; its command is filled in here.
Backend open_backend(const BackendName& name, WorkerOptions limits = {});
Backend open_backend(std::string_view name, WorkerOptions limits = {});

// One in a folder that is not its own in the cache. Throws NotInstalled when the worker program is missing.
Backend open_backend_in(const BackendKind& kind, const std::string& folder, WorkerOptions limits = {});
// Whether a folder holds what the kind needs.
bool holds_backend(const BackendKind& kind, const std::string& folder);

// Where a version is, or would be, installed: CACHE/onnxruntime-1.30.0.
std::string install_folder(std::string_view install, std::string_view version);
// $XDG_CACHE_HOME/finity or ~/.cache/finity. Throws Error when neither variable is set.
std::string cache_folder();
// The shared library of ONNX Runtime inside an installed package; empty when there is none for this machine.
std::string find_onnxruntime(const std::string& folder);

bool is_version(std::string_view text);
// Compares "1.9.0" and "1.10.0" as people do.
bool older(std::string_view a, std::string_view b);

}  // namespace finity
