#include "base/time_limit.h"

#include <algorithm>

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;

thread_local Clock::time_point deadline = Clock::time_point::max();

}  // namespace

TimeLimit::TimeLimit(double seconds) : outer_(deadline) {
  constexpr double kForEver = 1e9;
  if (!(seconds > 0 && seconds < kForEver)) return;
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  deadline = std::min(deadline, Clock::now() + limit);
}

TimeLimit::~TimeLimit() { deadline = outer_; }

void check_time() {
  if (deadline != Clock::time_point::max() && Clock::now() > deadline) throw TimeUp();
}

}  // namespace finity
