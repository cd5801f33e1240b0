#include "exec/torch_worker.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace finity {

std::string file_beside(const std::string& name) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : (self.parent_path() / name).string();
}

std::string program_beside(const std::string& name) {
  const std::string path = file_beside(name);
  return ::access(path.c_str(), X_OK) == 0 ? path : std::string();
}

std::optional<WorkerOptions> torch_worker() {
  const std::string program = program_beside("finity-torch");
  if (program.empty()) return std::nullopt;
  return WorkerOptions{.command = {program}};
}

}  // namespace finity
