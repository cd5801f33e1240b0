#include "base/clock.h"

#include <ctime>

namespace finity {

double seconds_now(ClockKind kind) {
  timespec now = {};
  clock_gettime(kind == ClockKind::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &now);
  constexpr double kNano = 1e-9;
  return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
}

}  // namespace finity
