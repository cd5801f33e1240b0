#include "fuzz/ahead.h"

namespace finity::fuzz {

Ahead::Ahead(int threads, std::function<Work()> start) : start_(std::move(start)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Ahead::~Ahead() {
  {
    const std::lock_guard lock(guard_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Ahead::give(std::int64_t id) {
  given_.push_back(id);
  {
    const std::lock_guard lock(guard_);
    open_.push_back(id);
  }
  changed_.notify_all();
}

Outcome Ahead::take() {
  const std::int64_t id = given_.front();
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return failure_ != nullptr || done_.contains(id); });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  given_.pop_front();
  return std::move(done_.extract(id).mapped());
}

void Ahead::work() {
  try {
    const Work work = start_();
    for (;;) {
      std::int64_t id = 0;
      {
        std::unique_lock lock(guard_);
        changed_.wait(lock, [this] { return stop_ || !open_.empty(); });
        if (stop_) return;
        id = open_.front();
        open_.pop_front();
      }
      Outcome outcome = work(id);
      {
        const std::lock_guard lock(guard_);
        done_.emplace(id, std::move(outcome));
      }
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(guard_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

}  // namespace finity::fuzz
