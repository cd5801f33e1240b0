#include "backends/install.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "backends/backends.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "ops/table/op.h"

namespace finity {

namespace fs = std::filesystem;

namespace {

constexpr auto kPatience = std::chrono::minutes(15);
constexpr std::string_view kPart = ".part-";

// The process that makes a folder is in its name, so what a killed one left is known.
bool is_abandoned(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  pid_t pid = 0;
  const std::string_view digits = std::string_view(name).substr(dash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return error == std::errc() && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

void remove_abandoned(const fs::path& cache) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(cache, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPart) && is_abandoned(name)) fs::remove_all(entry.path(), ignored);
  }
}

// A folder that is gone when this is, unless it was moved away.
class Workplace {
 public:
  explicit Workplace(const InstallRequest& request) {
    const fs::path cache = cache_folder();
    std::error_code failed;
    fs::create_directories(cache, failed);
    remove_abandoned(cache);
    path_ = cache / (std::string(kPart) + request.install + "-" + request.version + "-" + std::to_string(::getpid()));
    fs::remove_all(path_, failed);
    if (!fs::create_directory(path_, failed)) throw Error("cannot make " + path_.string() + ": " + failed.message());
  }
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<std::string> packages_of(const InstallRequest& request) {
  if (request.install == "onnxruntime") return {"onnxruntime-node@" + request.version};
  std::vector<std::string> packages{"@tensorflow/tfjs@" + request.version};
  // Version 1 has no WebAssembly.
  if (!older(request.version, "2.0.0")) packages.push_back("@tensorflow/tfjs-backend-wasm@" + request.version);
  return packages;
}

// What npm says first about what went wrong.
std::string reason_of(const std::string& words) {
  std::string first;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\n', at), words.size());
    const std::string line = words.substr(at, end - at);
    at = end + 1;
    const std::size_t said = line.find("npm ");
    if (said == std::string::npos || line.find("code ") != std::string::npos) continue;
    const std::size_t text = line.find_first_not_of(" ", line.find(' ', said + 4));
    if (text != std::string::npos && first.empty()) first = line.substr(text);
  }
  return first.empty() ? words : first;
}

// Waits until it ends; what it says on its output is not needed.
std::string ended(Subprocess& process, const std::function<void(const std::string&)>& tell) {
  const auto start = Subprocess::Clock::now();
  std::array<std::byte, 1> byte{};
  while (true) {
    const auto transfer = process.receive(byte, Subprocess::Clock::now() + std::chrono::seconds(5));
    if (transfer == Subprocess::Transfer::ended) return process.end();
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Subprocess::Clock::now() - start);
    if (waited > kPatience) throw Error("npm took longer than 15 minutes");
    if (transfer == Subprocess::Transfer::late) tell("downloading, " + std::to_string(waited.count()) + " s so far");
  }
}

void run_npm(const InstallRequest& request, const fs::path& folder,
             const std::function<void(const std::string&)>& tell) {
  // Scripts of the packages would fetch what a graphics card needs, from elsewhere.
  std::vector<std::string> command{"npm",       "install",          "--ignore-scripts", "--no-audit",
                                   "--no-fund", "--loglevel=error", "--prefix",         folder.string()};
  for (const std::string& package : packages_of(request)) command.push_back(package);
  try {
    Subprocess npm(command);
    const std::string how = ended(npm, tell);
    if (how != "ended with code 0") throw Error("npm " + how + ": " + reason_of(npm.errors()));
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.starts_with("cannot start npm")) throw Error("npm is not installed, which fetches the packages");
    throw;
  }
}

// Libraries of other systems, maps and types are most of what comes.
void prune(const InstallRequest& request, const fs::path& folder) {
  std::vector<fs::path> needless;
  const std::string library = find_onnxruntime(folder.string());
  for (const auto& entry : fs::recursive_directory_iterator(folder / "node_modules")) {
    if (!entry.is_regular_file()) continue;
    const fs::path& path = entry.path();
    const std::string extension = path.extension().string();
    const bool foreign = request.install == "onnxruntime" && path.string().find("/bin/napi-v") != std::string::npos &&
                         path.parent_path() != fs::path(library).parent_path();
    if (foreign || extension == ".map" || extension == ".ts") needless.push_back(path);
  }
  for (const fs::path& path : needless) fs::remove(path);
}

// y = Relu(x + x)
std::string small_model() {
  GraphBuilder builder;
  const BodyId body = builder.add_body("g");
  builder.info().opsets[""] = 13;
  builder.info().ir_version = 7;
  const Type row = Type::tensor_of(DType::float32, Dims{1, 3});
  const ValueId x = builder.add_input(body, "x", row);
  const auto add = [&](const char* op, std::vector<ValueId> inputs, const char* name) {
    Node node = node_of(op_named(op), 13);
    node.body = body;
    node.inputs = std::move(inputs);
    const ValueId output = builder.add_value(body, name, row);
    node.outputs.push_back(output);
    builder.add_node(std::move(node));
    return output;
  };
  builder.add_output(body, add("Relu", {add("Add", {x, x}, "sum")}, "y"));
  return write_onnx(std::move(builder).build());
}

// The library in the folder really runs.
void require_running(const BackendKind& kind, const std::string& folder) {
  Backend backend = open_backend_in(kind, folder);
  const std::array<float, 3> given{1, -2, 3}, expected{2, 0, 6};
  const Answer answer = backend.worker().run(
      {.model = small_model(),
       .run = {.inputs = {{"x", Tensor::of<float>(DType::float32, {1, 3}, given)}}, .outputs = {"y"}}});
  const std::string who(kind.name);
  if (!answer.done()) throw Error(who + " does not run: " + answer.text);
  const Tensor* y = answer.outputs.at(0).second.tensor();
  if (y == nullptr || y->dims() != Dims{1, 3} || !std::ranges::equal(y->data<float>(), expected))
    throw Error(who + " computes something else for the sum of two numbers");
}

}  // namespace

InstallRequest parse_install(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const std::string version(at == std::string_view::npos ? std::string_view() : text.substr(at + 1));
  if (name != "ort" && name != "tfjs") {
    throw Error("'" + std::string(text) + "' cannot be installed; there are ort@VERSION and tfjs@VERSION");
  }
  if (!is_version(version)) {
    throw Error("'" + std::string(text) + "': which version? Write " + std::string(name) + "@" +
                (name == "ort" ? "1.30.0" : "4.22.0"));
  }
  return {.install = name == "ort" ? "onnxruntime" : "tfjs", .version = version};
}

Installed install_backend(const InstallRequest& request, const std::function<void(const std::string&)>& tell) {
  const std::string target = install_folder(request.install, request.version);
  if (fs::exists(target)) return Installed::before;
  const Workplace place(request);
  tell("downloading");
  run_npm(request, place.path(), tell);
  if (request.install == "onnxruntime" && find_onnxruntime(place.path().string()).empty())
    throw Error("the package of this version holds no library for this machine");
  tell("trying it");
  prune(request, place.path());
  for (const BackendKind& kind : backend_kinds()) {
    if (kind.install == request.install && holds_backend(kind, place.path().string()))
      require_running(kind, place.path().string());
  }
  std::error_code failed;
  fs::rename(place.path(), target, failed);
  if (failed && fs::exists(target)) return Installed::before;  // somebody else was faster
  if (failed) throw Error("cannot make " + target + ": " + failed.message());
  return Installed::now;
}

}  // namespace finity
