// A child process that is spoken to over its standard input and output, for programs that may crash, hang or take
// all memory: it has a process group and limits of its own, every transfer has a deadline, and nothing it does ends
// its parent. What it writes on its standard error is kept for messages.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace finity {

class Subprocess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Transfer : std::uint8_t { done, ended, late };  // ended: by the other side

  // Throws Error when the program cannot be started. `memory_bytes` limits its address space; 0: no limit.
  explicit Subprocess(const std::vector<std::string>& command, std::uint64_t memory_bytes = 0);
  ~Subprocess();  // kills the whole group
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  Transfer send(std::span<const std::byte> bytes, Clock::time_point deadline) const;
  Transfer receive(std::span<std::byte> bytes, Clock::time_point deadline) const;

  // From now on it may use so much; then the system ends it.
  void allow_cpu_seconds(unsigned seconds) const;
  // Ends it, with a moment's grace to end by itself, and says how it ended: "ended by signal 11 (Segmentation fault)".
  std::string end();

  // The last lines on its standard error since the last call of forget_errors().
  std::string errors() const;
  void forget_errors() const;

 private:
  [[noreturn]] void run_program(char* const* arguments, std::uint64_t memory_bytes, int socket, int failure) const;
  bool ended_within(std::chrono::milliseconds grace);

  pid_t pid_ = -1;
  int socket_ = -1;
  int errors_ = -1;
  int process_ = -1;  // readable when it has ended
  int status_ = 0;
  bool waited_ = false;
};

}  // namespace finity
