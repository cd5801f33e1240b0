// z * a + (1 - z) * b, which is between a and b where z is between 0 and 1: how a GRU makes its next state, and how
// gates, moving means and interpolations are written. Neither product says so alone.
#pragma once

#include <optional>

#include "ops/table/upstream.h"

namespace finity {

class RangeCall;

struct Mix {
  Upstream share, a, b;  // share * a + (1 - share) * b
};

// Of a sum with these summands and so many axes.
std::optional<Mix> find_mix(const Upstream& x, const Upstream& y, std::size_t rank);

// By how much z is less than 0 or more than 1; nothing when nothing sensible bounds it.
std::optional<double> excess_of_share(const Mix& mix);

// What the sum can be, rounding included. `either` holds a and b.
Range range_of_mix(DType dtype, const Range& either, double excess);

// Of a sum that was computed: what it is as a mix.
void limit_mix(RangeCall& call);

}  // namespace finity
