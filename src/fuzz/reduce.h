// Makes a sample that shows a fault small: fewer steps, values that were computed handed in as inputs, attributes left
// out, smaller and rounder numbers. Every candidate is judged anew by the library, so what comes out shows the fault.
#pragma once

#include <functional>

#include "fuzz/sample.h"

namespace finity::fuzz {

// Whether the candidate still shows the fault; must not throw.
using StillShows = std::function<bool(const Sample&)>;

// Not a time: what comes out must not depend on how busy the machine is.
struct ReduceLimits {
  int candidates = 400;  // of up to ten steps; larger ones count for more
};

Sample reduce(Sample sample, const StillShows& still_shows, const ReduceLimits& limits = {});

}  // namespace finity::fuzz
