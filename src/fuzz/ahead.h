// Threads that work ahead of a campaign: samples are handed out by number, and their outcomes are taken in that order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "fuzz/entry.h"
#include "fuzz/generate.h"

namespace finity::fuzz {

struct Outcome {
  std::int64_t id = 0;
  Generated generated = {};
  std::vector<BackendOutcome> backends = {};
};

class Ahead {
 public:
  using Work = std::function<Outcome(std::int64_t)>;
  // `start` is called once in each thread: libraries are started there.
  Ahead(int threads, std::function<Work()> start);
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  void give(std::int64_t id);
  // Given and not taken.
  int waiting() const { return static_cast<int>(given_.size()); }
  // Of the earliest that was given. Throws what a thread threw.
  Outcome take();

 private:
  void work();

  std::function<Work()> start_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<std::int64_t> given_;  // touched by the owner's thread only
  std::deque<std::int64_t> open_;   // nobody works on yet
  std::map<std::int64_t, Outcome> done_;
  std::exception_ptr failure_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace finity::fuzz
