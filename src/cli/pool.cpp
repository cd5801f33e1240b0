#include "cli/pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace finity {

namespace {

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t interrupt_second = 0;

// The first Ctrl-C asks to stop, one that comes a while later insists. (Wrappers often send it twice at once.)
extern "C" void on_interrupt(int /*signal*/) {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto second = static_cast<std::sig_atomic_t>(now.tv_sec);
  if (interrupted == 0) interrupt_second = second;
  else if (second - interrupt_second > 1) ::_exit(2);
  interrupted = 1;
}

class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    ::sigaction(SIGINT, &action, &before_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

// Outlives the call: threads that are left behind still hold it.
struct Shared {
  std::function<void(std::size_t)> job;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> finished;
  std::size_t done = 0;
  std::size_t next = 0;
  std::size_t latest = 0;  // job that was started last
  bool stop = false;
};

void work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (!shared->stop && shared->next < shared->finished.size()) {
    const std::size_t mine = shared->next++;
    shared->latest = mine;
    lock.unlock();
    shared->job(mine);
    lock.lock();
    if (shared->stop) return;
    shared->finished[mine] = true;
    ++shared->done;
    shared->changed.notify_one();
  }
}

class ProgressLine {
 public:
  void show(std::size_t done, std::size_t count, const std::string& label) {
    if (!wanted_ || std::chrono::steady_clock::now() - start_ < std::chrono::milliseconds(500)) return;
    constexpr std::size_t kWidth = 24;
    const std::size_t filled = count == 0 ? kWidth : kWidth * done / count;
    const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
    std::fprintf(stderr, "\r[%s] %zu/%zu %.60s\x1b[K", bar.c_str(), done, count, label.c_str());
    shown_ = true;
  }
  void clear() const {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool wanted_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

}  // namespace

PoolOutcome run_jobs(std::size_t count, unsigned threads, std::function<void(std::size_t)> job,
                     const std::function<std::string(std::size_t)>& label, double grace) {
  const InterruptGuard guard;
  const auto shared = std::make_shared<Shared>();
  shared->job = std::move(job);
  shared->finished.resize(count, false);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < std::min<std::size_t>(std::max(threads, 1U), count); ++i)
    workers.emplace_back(work, shared);
  ProgressLine progress;
  std::unique_lock lock(shared->mutex);
  while (shared->done < count && interrupted == 0) {
    // The signal wakes nobody up: look now and then.
    shared->changed.wait_for(lock, std::chrono::milliseconds(50));
    progress.show(shared->done, count, label(shared->latest));
  }
  progress.clear();
  if (interrupted != 0) {
    const std::size_t started = std::exchange(shared->next, count);
    const auto ended = [&] { return shared->done == started; };
    shared->changed.wait_for(lock, std::chrono::duration<double>(grace), ended);
  }
  shared->stop = true;
  PoolOutcome outcome = {.finished = shared->finished, .interrupted = shared->done < count};
  lock.unlock();
  for (std::thread& worker : workers) {
    if (outcome.interrupted) worker.detach();
    else worker.join();
  }
  return outcome;
}

bool interrupt_wanted() { return interrupted != 0; }

}  // namespace finity
