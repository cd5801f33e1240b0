// A limit on the time the current thread may take. Whoever starts work that must end
// makes a TimeLimit; whoever works for long asks check_time() now and then.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/error.h"

namespace finity {

class TimeUp : public Error {
 public:
  TimeUp() : Error("the time limit was reached") {}
};

// Holds until it goes out of scope. A limit inside another cannot extend it.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);  // 0: none of its own
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit();

 private:
  std::chrono::steady_clock::time_point outer_;
};

// Throws TimeUp when the limit has passed.
void check_time();

// The same for inner loops: looks at the clock only once in a while, `steps` being what the caller is about to do.
inline thread_local std::int64_t steps_to_next_look = 0;
inline void check_time_after(std::int64_t steps) {
  constexpr std::int64_t kBetweenLooks = 1 << 22;
  steps_to_next_look -= steps;
  if (steps_to_next_look > 0) return;
  steps_to_next_look = kBetweenLooks;
  check_time();
}

}  // namespace finity
