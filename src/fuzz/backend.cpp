#include "fuzz/backend.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "exec/torch_worker.h"
#include "formats/onnx/onnx.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOrtFolder = "onnxruntime-";
constexpr double kSecondsPerRequest = 20;

fs::path cache_folder() {
  if (const char* set = std::getenv("XDG_CACHE_HOME"); set != nullptr && *set != '\0') return fs::path(set) / "finity";
  const char* home = std::getenv("HOME");
  return home == nullptr ? fs::path() : fs::path(home) / ".cache" / "finity";
}

std::string ort_library(const std::string& version) {
  const fs::path folder = cache_folder() / (std::string(kOrtFolder) + version);
  std::error_code failed;
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string path = at->path().string();
    if (path.find("/linux/x64/libonnxruntime.so") != std::string::npos) found.push_back(path);
  }
  std::ranges::sort(found);
  return found.empty() ? std::string() : found.front();
}

std::vector<int> numbers(const std::string& version) {
  std::vector<int> result(1, 0);
  for (const char c : version) {
    if (c >= '0' && c <= '9') result.back() = result.back() * 10 + (c - '0');
    else result.push_back(0);
  }
  return result;
}

}  // namespace

std::vector<BackendSpec> parse_backends(std::string_view text) {
  std::vector<BackendSpec> specs;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t at = part.find('@');
    BackendSpec spec{.family = std::string(part.substr(0, at)), .version = {}};
    if (at != std::string_view::npos) spec.version = part.substr(at + 1);
    if (spec.family != "torch" && spec.family != "ort")
      throw Error("'" + std::string(part) + "' is no backend: torch, ort@VERSION");
    if (spec.family == "ort" && spec.version.empty()) {
      const std::vector<BackendSpec> all = installed_versions("ort");
      if (!all.empty()) spec = all.back();
    }
    const bool named = spec.version.find_first_not_of("0123456789.") == std::string::npos;
    if (!named) throw Error("'" + spec.version + "' is no version of " + spec.family);
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) throw Error("no backend is named: torch, ort@VERSION");
  return specs;
}

std::optional<WorkerOptions> find_backend(const BackendSpec& spec, std::string& why) {
  if (spec.family == "torch") {
    std::optional<WorkerOptions> torch = torch_worker();
    if (!torch) why = "the program finity-torch is not beside finity";
    else torch->seconds = kSecondsPerRequest;
    return torch;
  }
  const std::string program = program_beside("onnxruntime-worker");
  const std::string library = ort_library(spec.version);
  if (program.empty()) why = "the program onnxruntime-worker is not beside finity";
  else if (library.empty()) why = "it is not installed (finity backends install " + spec.text() + ")";
  if (!why.empty()) return std::nullopt;
  return WorkerOptions{.command = {program, library}, .seconds = kSecondsPerRequest};
}

std::vector<BackendSpec> installed_versions(std::string_view family) {
  std::vector<BackendSpec> specs;
  std::string why;
  if (family == "torch" && find_backend({.family = "torch"}, why)) specs.push_back({.family = "torch"});
  if (family != "ort") return specs;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_folder(), failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kOrtFolder)) continue;
    const std::string version = name.substr(kOrtFolder.size());
    if (version.find_first_not_of("0123456789.") != std::string::npos || ort_library(version).empty()) continue;
    specs.push_back({.family = "ort", .version = version});
  }
  std::ranges::sort(specs, {}, [](const BackendSpec& spec) { return numbers(spec.version); });
  return specs;
}

Answer Backend::run(const Sample& sample, Optimisation level, bool exposed) {
  const Graph model = graph(sample, exposed);
  Request request{.model = write_onnx(model), .level = level};
  for (const auto& [name, tensor] : sample.inputs) request.run.inputs.emplace_back(name, tensor);
  for (const ValueId id : model.main().outputs) request.run.outputs.push_back(model.value(id).name);
  return worker_.run(request);
}

Datum find(const NamedData& data, std::string_view name) {
  for (const auto& [key, datum] : data) {
    if (key == name) return datum;
  }
  return {};
}

}  // namespace finity::fuzz
