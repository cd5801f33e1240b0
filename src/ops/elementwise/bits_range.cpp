// Ranges of operations on the bits of integers.
#include <algorithm>
#include <cmath>

#include "ops/elementwise/binary_range.h"
#include "ops/shared/range_rules.h"

namespace finity {

void range_shift(RangeCall& call) {
  const bool left = call.text("direction") == "LEFT";
  range_binary(call, [&](const Range& a, const Range&, DType dtype) {
    // Right shifts only shrink; left shifts may lose any bits.
    return left || !a.has_finite() ? any_finite(dtype) : from_bounds(dtype, 0, a.hi);
  });
}

void range_bits(RangeCall& call) {
  range_binary(call, [](const Range& a, const Range& b, DType dtype) {
    if (!a.has_finite() || !b.has_finite() || a.lo < 0 || b.lo < 0) return any_finite(dtype);
    // Bits of either, at most all bits below the next power of two of the larger.
    const double larger = std::max(a.hi, b.hi);
    const double bound = larger <= 0 ? 0 : std::exp2(std::floor(std::log2(larger)) + 1);
    return from_bounds(dtype, 0, std::min(bound, max_finite(dtype)));
  });
}

}  // namespace finity
