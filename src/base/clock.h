// Two clocks for searches: the wall's, and the processor time of the process. On a machine that others use too, only
// the second says what a search costs.
#pragma once

#include <cstdint>

namespace finity {

enum class ClockKind : std::uint8_t { wall, processor };

// Seconds since some moment that stays the same; all threads of the process count for its processor time.
double seconds_now(ClockKind kind);

// Seconds since it was made, by both clocks.
class Stopwatch {
 public:
  double seconds(ClockKind kind) const { return seconds_now(kind) - (kind == ClockKind::wall ? wall_ : processor_); }

 private:
  double wall_ = seconds_now(ClockKind::wall);
  double processor_ = seconds_now(ClockKind::processor);
};

}  // namespace finity
