#include "backends/backends.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/suggest.h"
#include "exec/torch_worker.h"

namespace finity {

namespace fs = std::filesystem;

namespace {

constexpr BackendKind kKinds[] = {
    {.name = "torch",
     .library = "LibTorch, node by node",
     .program = "finity-torch",
     .needs = "libtorch-dev",
     .voter = "onednn",
     .derives = true},
    {.name = "torch-native",
     .library = "LibTorch without oneDNN",
     .program = "finity-torch",
     .option = "--no-onednn",
     .needs = "libtorch-dev",
     .voter = "torch",
     .derives = true},
    {.name = "torch-script",
     .library = "LibTorch, TorchScript for inference",
     .program = "finity-torch",
     .option = "--script",
     .needs = "libtorch-dev",
     .voter = "onednn",
     .levels = true},
    {.name = "ort",
     .library = "ONNX Runtime",
     .program = "onnxruntime-worker",
     .install = "onnxruntime",
     .voter = "ort",
     .levels = true},
    {.name = "onednn",
     .library = "oneDNN primitives",
     .program = "finity-onednn",
     .needs = "libdnnl-dev",
     .voter = "onednn",
     .derives = true},
    {.name = "opencv",
     .library = "OpenCV DNN",
     .program = "finity-opencv",
     .needs = "libopencv-dnn-dev",
     .voter = "opencv",
     .levels = true},
    {.name = "tfjs-cpu",
     .library = "TensorFlow.js, plain JavaScript",
     .program = "finity-tfjs/worker.js",
     .runner = "node",
     .option = "cpu",
     .install = "tfjs",
     .voter = "tfjs-cpu",
     .derives = true},
    {.name = "tfjs-wasm",
     .library = "TensorFlow.js, WebAssembly",
     .program = "finity-tfjs/worker.js",
     .runner = "node",
     .option = "wasm",
     .install = "tfjs",
     .voter = "tfjs-wasm",
     .derives = true},
};

std::vector<std::string> installed_versions(const BackendKind& kind) {
  std::vector<std::string> versions;
  std::error_code failed;
  const std::string start = std::string(kind.install) + "-";
  for (const auto& entry : fs::directory_iterator(cache_folder(), failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    const std::string version = name.substr(start.size());
    if (is_version(version) && holds_backend(kind, entry.path().string())) versions.push_back(version);
  }
  std::ranges::sort(versions, [](const std::string& a, const std::string& b) { return older(b, a); });
  return versions;
}

NotInstalled missing(const BackendName& name) {
  const BackendKind& kind = *name.kind;
  if (kind.install.empty()) {
    return NotInstalled(to_string(name) + " is not there (install " + std::string(kind.needs) + " and build again)");
  }
  const std::string package = kind.install == "tfjs" ? "tfjs" : std::string(kind.name);
  const std::string version = name.version.empty() ? "VERSION" : name.version;
  return NotInstalled(to_string(name) + " is not installed (finity backends install " + package + "@" + version + ")");
}

std::string find_program(const BackendKind& kind) {
  if (kind.runner.empty()) return program_beside(std::string(kind.program));
  const std::string script = file_beside(std::string(kind.program));
  return fs::exists(script) ? script : std::string();
}

std::vector<std::string> command_of(const BackendKind& kind, const std::string& program, const std::string& folder) {
  std::vector<std::string> command;
  if (!kind.runner.empty()) command.emplace_back(kind.runner);
  command.push_back(program);
  if (!kind.install.empty()) command.push_back(kind.install == "onnxruntime" ? find_onnxruntime(folder) : folder);
  if (!kind.option.empty()) command.emplace_back(kind.option);
  return command;
}

WorkerOptions limits_of(const BackendKind& kind, const std::string& program, const std::string& folder,
                        WorkerOptions limits) {
  limits.command = command_of(kind, program, folder);
  // node reserves far more addresses than it uses.
  if (!kind.runner.empty()) limits.memory_bytes = 0;
  return limits;
}

}  // namespace

std::span<const BackendKind> backend_kinds() { return kKinds; }

BackendName parse_backend(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const auto* kind = std::ranges::find(kKinds, name, &BackendKind::name);
  if (kind == std::end(kKinds)) {
    std::vector<std::string> names;
    for (const BackendKind& each : kKinds) names.emplace_back(each.name);
    throw Error("there is no backend '" + std::string(name) + "'" + did_you_mean(name, names) +
                "; finity backends lists them");
  }
  BackendName result{.kind = kind};
  if (at == std::string_view::npos) return result;
  result.version = text.substr(at + 1);
  if (!is_version(result.version)) throw Error("'" + std::string(text) + "': a version is written like 1.30.0");
  return result;
}

std::vector<BackendName> parse_backends(std::string_view text) {
  std::vector<BackendName> result;
  std::vector<std::string> seen;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (item.empty() || std::ranges::find(seen, item) != seen.end()) continue;
    seen.emplace_back(item);
    result.push_back(parse_backend(item));
  }
  return result;
}

std::string to_string(const BackendName& name) {
  return std::string(name.kind->name) + (name.version.empty() ? "" : "@" + name.version);
}

std::vector<BackendName> installed_backends() {
  std::vector<BackendName> result;
  for (const BackendKind& kind : kKinds) {
    if (find_program(kind).empty()) continue;
    if (kind.install.empty()) result.push_back({.kind = &kind});
    else
      for (std::string& version : installed_versions(kind)) result.push_back({&kind, std::move(version)});
  }
  return result;
}

std::string Backend::name() { return std::string(kind().name) + "@" + worker_.hello().version; }

Backend open_backend(const BackendName& name, WorkerOptions limits) {
  const BackendKind& kind = *name.kind;
  const std::string program = find_program(kind);
  if (program.empty()) throw missing(name);
  BackendName found = name;
  if (!kind.install.empty()) {
    if (name.version.empty()) {
      const std::vector<std::string> versions = installed_versions(kind);
      if (versions.empty()) throw missing(name);
      found.version = versions.front();
    }
    if (!holds_backend(kind, install_folder(kind.install, found.version))) throw missing(found);
  }
  const std::string folder = kind.install.empty() ? "" : install_folder(kind.install, found.version);
  Backend backend(found, limits_of(kind, program, folder, std::move(limits)));
  // Of what is linked there is one version, which the program itself knows.
  if (kind.install.empty() && !name.version.empty() && backend.worker().hello().version != name.version)
    throw NotInstalled(to_string(name) + " is not there, but " + backend.name());
  return backend;
}

Backend open_backend_in(const BackendKind& kind, const std::string& folder, WorkerOptions limits) {
  const std::string program = find_program(kind);
  if (program.empty()) throw missing({.kind = &kind});
  return Backend({.kind = &kind}, limits_of(kind, program, folder, std::move(limits)));
}

Backend open_backend(std::string_view name, WorkerOptions limits) {
  return open_backend(parse_backend(name), std::move(limits));
}

std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return (fs::path(cache) / "finity").string();
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return (fs::path(home) / ".cache" / "finity").string();
  throw Error("there is no cache folder: neither XDG_CACHE_HOME nor HOME is set");
}

std::string install_folder(std::string_view install, std::string_view version) {
  return (fs::path(cache_folder()) / (std::string(install) + "-" + std::string(version))).string();
}

std::string find_onnxruntime(const std::string& folder) {
#if defined(__aarch64__)
  constexpr std::string_view kMachine = "arm64";
#else
  constexpr std::string_view kMachine = "x64";
#endif
  const fs::path bin = fs::path(folder) / "node_modules" / "onnxruntime-node" / "bin";
  std::error_code failed;
  for (const auto& interface : fs::directory_iterator(bin, failed)) {
    for (const auto& file : fs::directory_iterator(interface.path() / "linux" / kMachine, failed)) {
      if (file.path().filename().string().starts_with("libonnxruntime.so")) return file.path().string();
    }
  }
  return {};
}

bool is_version(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  });
}

bool holds_backend(const BackendKind& kind, const std::string& folder) {
  if (kind.install == "onnxruntime") return !find_onnxruntime(folder).empty();
  const fs::path packages = fs::path(folder) / "node_modules" / "@tensorflow";
  std::error_code ignored;
  return fs::is_directory(packages / "tfjs", ignored) &&
         (kind.option != "wasm" || fs::is_directory(packages / "tfjs-backend-wasm", ignored));
}

bool older(std::string_view a, std::string_view b) {
  const auto part = [](std::string_view& text) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
    return error == std::errc() ? number : -1;
  };
  while (!a.empty() || !b.empty()) {
    const int left = part(a), right = part(b);
    if (left != right) return left < right;
  }
  return false;
}

}  // namespace finity
