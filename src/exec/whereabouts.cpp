#include "exec/whereabouts.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace finity {

namespace {

std::atomic<const char*> place_now = nullptr;

// Only what is safe in a signal handler; then the signal does what it does without one.
void tell(int signal) {
  const auto put = [](const char* text) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  };
  if (const char* place = place_now.load()) {
    put("at ");
    put(place);
    put("\n");
  }
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void working_at(const char* place) { place_now.store(place, std::memory_order_relaxed); }

const char* place_of_work() { return place_now.load(); }

void tell_whereabouts() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM}) std::signal(signal, tell);
}

}  // namespace finity
