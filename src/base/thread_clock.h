// Computing time of the current thread, which does not depend on what else the machine does.
#pragma once

#include <ctime>

namespace finity {

inline double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  constexpr double kNano = 1e-9;
  return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
}

}  // namespace finity
