#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/error.h"

namespace finity {

namespace {

constexpr std::size_t kErrorsShown = 2000;  // bytes
constexpr auto kGrace = std::chrono::milliseconds(500);

Error failed(const std::string& what) { return Error("cannot " + what + ": " + std::strerror(errno)); }

int milliseconds_until(Subprocess::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Subprocess::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// Waits for the socket or the end of the process, whose own children may hold the socket open. Late: the deadline
// passed.
Subprocess::Transfer ready(int fd, short events, int process, Subprocess::Clock::time_point deadline) {
  while (true) {
    pollfd wanted[2] = {{.fd = fd, .events = events, .revents = 0}, {.fd = process, .events = POLLIN, .revents = 0}};
    const int count = ::poll(wanted, 2, milliseconds_until(deadline));
    if (count > 0) return wanted[0].revents != 0 ? Subprocess::Transfer::done : Subprocess::Transfer::ended;
    if (count == 0) return Subprocess::Transfer::late;
    if (errno != EINTR) throw failed("wait for a process");
  }
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& command, std::uint64_t memory_bytes) {
  int sockets[2], failure[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw failed("make a socket");
  socket_ = sockets[0];
  errors_ = ::memfd_create("errors", MFD_CLOEXEC);
  if (errors_ < 0 || ::pipe2(failure, O_CLOEXEC) != 0) throw failed("make a pipe");
  ::fcntl(errors_, F_SETFL, O_APPEND);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) run_program(arguments.data(), memory_bytes, sockets[1], failure[1]);
  ::close(sockets[1]);
  ::close(failure[1]);
  // Closed by the exec that works, written to by the one that does not.
  int reason = 0;
  const bool started = pid_ > 0 && ::read(failure[0], &reason, sizeof reason) == 0;
  ::close(failure[0]);
  if (started) {
    process_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));  // -1 on old systems, which poll() skips
    return;
  }
  if (pid_ > 0) end();
  ::close(socket_);
  ::close(errors_);
  errno = reason;
  throw failed("start " + command.front());
}

// The sanitizer's shadow of all addresses counts as memory.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

// In the child, where only system calls are safe: the parent may have had threads.
void Subprocess::run_program(char* const* arguments, std::uint64_t memory_bytes, int socket, int failure) const {
  ::setpgid(0, 0);
  const rlimit memory{.rlim_cur = memory_bytes, .rlim_max = memory_bytes}, no_core{.rlim_cur = 0, .rlim_max = 0};
  if (memory_bytes != 0 && kLimitsMemory) ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(socket, STDIN_FILENO);
  ::dup2(socket, STDOUT_FILENO);
  ::dup2(errors_, STDERR_FILENO);
  ::execvp(arguments[0], arguments);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

Subprocess::~Subprocess() {
  if (!waited_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  if (process_ >= 0) ::close(process_);
  ::close(socket_);
  ::close(errors_);
}

Subprocess::Transfer Subprocess::send(std::span<const std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    if (const Transfer state = ready(socket_, POLLOUT, process_, deadline); state != Transfer::done) return state;
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (errno == EPIPE || errno == ECONNRESET) return Transfer::ended;
    else if (errno != EINTR && errno != EAGAIN) throw failed("write to a process");
  }
  return Transfer::done;
}

Subprocess::Transfer Subprocess::receive(std::span<std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    if (const Transfer state = ready(socket_, POLLIN, process_, deadline); state != Transfer::done) return state;
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (count == 0 || errno == ECONNRESET) return Transfer::ended;
    else if (errno != EINTR && errno != EAGAIN) throw failed("read from a process");
  }
  return Transfer::done;
}

void Subprocess::allow_cpu_seconds(unsigned seconds) const {
  clockid_t clock = 0;
  timespec used{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return;  // it has ended
  const rlim_t limit = static_cast<rlim_t>(used.tv_sec) + 1 + seconds;
  const rlimit cpu{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
  ::prlimit(pid_, RLIMIT_CPU, &cpu, nullptr);
}

bool Subprocess::ended_within(std::chrono::milliseconds grace) {
  const auto deadline = Clock::now() + grace;
  while (!waited_) {
    waited_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    if (waited_ || Clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return waited_;
}

std::string Subprocess::end() {
  const bool by_itself = ended_within(kGrace);
  if (!by_itself) {
    // It may have last words.
    ::kill(pid_, SIGTERM);
    ended_within(kGrace);
  }
  ::kill(-pid_, SIGKILL);  // also what it started
  if (!by_itself) {
    if (!waited_) ::waitpid(pid_, &status_, 0);
    waited_ = true;
    return "was stopped";
  }
  if (WIFEXITED(status_)) return "ended with code " + std::to_string(WEXITSTATUS(status_));
  const int signal = WTERMSIG(status_);
  return "ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

std::string Subprocess::errors() const {
  struct stat about {};
  if (::fstat(errors_, &about) != 0 || about.st_size == 0) return {};
  const auto size = static_cast<std::size_t>(about.st_size);
  const std::size_t shown = std::min(size, kErrorsShown);
  std::string text(shown, '\0');
  const ssize_t count = ::pread(errors_, text.data(), shown, static_cast<off_t>(size - shown));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

void Subprocess::forget_errors() const { [[maybe_unused]] const int ignored = ::ftruncate(errors_, 0); }

}  // namespace finity
