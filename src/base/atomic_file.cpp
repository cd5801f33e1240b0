#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace finity {

namespace {

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

namespace {

// Pipes and devices (/dev/stdout, /dev/null) are written to, never replaced.
bool is_special(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

void write_in_place(const std::string& path, std::string_view content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  bool ok = fd >= 0 && write_all(fd, content);
  const int reason = errno;
  if (fd >= 0) ok = ::close(fd) == 0 && ok;
  if (!ok) throw Error(path + ": cannot write: " + std::strerror(reason));
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view content) {
  if (is_special(path)) {
    write_in_place(path, content);
    return;
  }
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw Error(path + ": cannot write: " + std::strerror(errno));
  bool ok = write_all(fd, content);
  ok = ::close(fd) == 0 && ok;
  ok = ok && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (ok) return;
  const int reason = errno;
  ::unlink(temporary.c_str());
  throw Error(path + ": cannot write: " + std::strerror(reason));
}

}  // namespace finity
