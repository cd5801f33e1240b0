// The cost of the whole command: CPU time of `finity inspect` on a tiny model, and
// time and memory on a model with 500 MB of weights next to `cat` of the same file.
// Targets: 10 ms; at most twice cat's time; at most the file plus 50 MB.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models.h"

namespace {

struct Cost {
  double cpu_ms = 0, wall_ms = 0, peak_mb = 0;
};

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

Cost run_once(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) std::perror("spawn");
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) std::printf("%s failed\n", command.front().c_str());
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  return {milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime), wall.count(),
          static_cast<double>(usage.ru_maxrss) / 1024};
}

// The fastest of several: the machine's noise only adds.
Cost best_of(int times, const std::vector<std::string>& command) {
  Cost best = run_once(command);
  for (int i = 1; i < times; ++i) {
    const Cost next = run_once(command);
    best = {std::min(best.cpu_ms, next.cpu_ms), std::min(best.wall_ms, next.wall_ms),
            std::min(best.peak_mb, next.peak_mb)};
  }
  return best;
}

void print(const char* what, const Cost& cost) {
  std::printf("%-28s cpu %8.1f ms   wall %8.1f ms   peak %7.1f MB\n", what, cost.cpu_ms, cost.wall_ms, cost.peak_mb);
}

// In a process of its own: a child's peak memory starts at what its parent holds.
void make_models(const std::string& tiny, const std::string& heavy) {
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(tiny, std::ios::binary) << finity::chain_model(3);
    std::ofstream(heavy, std::ios::binary) << finity::heavy_model(std::int64_t{500} << 20);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("finity-bench-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string tiny = folder / "tiny.onnx";
  const std::string heavy = folder / "heavy.onnx";
  make_models(tiny, heavy);
  print("inspect tiny", best_of(20, {FINITY_PROGRAM, "inspect", tiny}));
  const Cost cat = best_of(5, {"cat", heavy});
  const Cost inspect = best_of(5, {FINITY_PROGRAM, "inspect", heavy});
  print("cat 500 MB", cat);
  print("inspect 500 MB", inspect);
  std::printf("inspect / cat: %.2f of the wall time, %.2f of the CPU time\n", inspect.wall_ms / cat.wall_ms,
              inspect.cpu_ms / cat.cpu_ms);
  fs::remove_all(folder);
  return 0;
}
