#include "ops/table/hazard.h"

#include <algorithm>
#include <cmath>

namespace finity {

namespace {

// An end that is NaN says nothing: the range may hold anything.
bool says_nothing(const Range& range) { return std::isnan(range.lo) || std::isnan(range.hi); }

bool no_finite(const Range& range) { return range.lo > range.hi; }

// Whether a finite value of the range lies in the interval.
bool meets(const Range& range, const Unsafe& unsafe) {
  if (says_nothing(range)) return true;
  if (no_finite(range) || range.lo > unsafe.hi || range.hi < unsafe.lo) return false;
  const double lo = std::max(range.lo, unsafe.lo);
  const double hi = std::min(range.hi, unsafe.hi);
  if (range.nonzero && lo == 0 && hi == 0) return false;
  if (range.nonzero && lo > -range.gap && hi < range.gap) return false;
  if (!range.integer) return true;
  const double first = std::ceil(lo);
  const double last = std::floor(hi);
  return first <= last && !(range.nonzero && first == 0 && last == 0);
}

// Neighbours that the range could hold: whole numbers when all its values are.
double above(const Range& range, DType dtype, double x) {
  const double next = next_up(dtype, x);
  return range.integer ? std::ceil(next) : next;
}
double below(const Range& range, DType dtype, double x) {
  const double next = next_down(dtype, x);
  return range.integer ? std::floor(next) : next;
}

// Keeps `nonzero` for ranges with zero strictly inside, where the ends cannot say it.
void settle(Range& range, DType dtype) {
  if (range.nonzero && range.lo == 0) range.lo = above(range, dtype, 0);
  if (range.nonzero && range.hi == 0) range.hi = below(range, dtype, 0);
  if (no_finite(range)) {
    range.lo = kInf;
    range.hi = -kInf;
  }
  if (range.lo > 0 || range.hi < 0) {
    range.nonzero = false;
    range.gap = 0;
  }
}

void remove_from(Range& range, const Unsafe& unsafe, DType dtype) {
  if (unsafe.hi == kInf) range.pinf = false;
  if (unsafe.lo == -kInf) range.ninf = false;
  if (!meets(range, unsafe)) return;
  const bool low = unsafe.lo <= range.lo;
  const bool high = unsafe.hi >= range.hi;
  if (low && high) {
    range.lo = kInf;
    range.hi = -kInf;
  } else if (low) {
    range.lo = above(range, dtype, unsafe.hi);
  } else if (high) {
    range.hi = below(range, dtype, unsafe.lo);
  } else if (unsafe.lo <= 0 && unsafe.hi >= 0) {
    range.nonzero = true;
  }
  settle(range, dtype);
}

}  // namespace

bool meets(const Range& range, const UnsafeSet& set) {
  return std::ranges::any_of(set, [&](const Unsafe& unsafe) {
    return (range.pinf && unsafe.hi == kInf) || (range.ninf && unsafe.lo == -kInf) || meets(range, unsafe);
  });
}

bool surely_in(const Range& range, const UnsafeSet& set) {
  // A NaN was made by somebody else: it is not what this hazard is about.
  if (range.nan || !meets(range, set)) return false;
  const auto some = [&](auto holds) { return std::ranges::any_of(set, holds); };
  if (range.pinf && !some([](const Unsafe& unsafe) { return unsafe.hi == kInf; })) return false;
  if (range.ninf && !some([](const Unsafe& unsafe) { return unsafe.lo == -kInf; })) return false;
  if (no_finite(range)) return true;
  return some([&](const Unsafe& unsafe) { return unsafe.lo <= range.lo && range.hi <= unsafe.hi; });
}

Range without(const Range& range, const UnsafeSet& set, DType dtype) {
  Range result = range;
  for (const Unsafe& unsafe : set) remove_from(result, unsafe, dtype);
  return result;
}

}  // namespace finity
