// Mixes of a and b, which are between them where z is between 0 and 1: how a GRU makes its next state, and how gates,
// moving means and interpolations are written. Neither product says so alone. Graphs have them in two forms:
//
//   z * a + (1 - z) * b                       weighted
//   b + z * (a - b), also b - z * (b - a)     a step from b towards a
#pragma once

#include <cstdint>
#include <optional>

#include "ops/table/op.h"
#include "ops/table/upstream.h"

namespace finity {

class RangeCall;

struct Mix {
  enum class Form : std::uint8_t { weighted, step };
  Upstream share, a, b;
  Form form = Form::weighted;
};

// Of a sum x + y, or a difference x - y, with so many axes.
std::optional<Mix> find_mix(OrderKind kind, const Upstream& x, const Upstream& y, std::size_t rank);

// By how much z is less than 0 or more than 1; nothing when nothing sensible bounds it.
std::optional<double> excess_of_share(const Mix& mix);

// What the result can be, rounding included. `either` holds a and b.
Range range_of_mix(DType dtype, Mix::Form form, const Range& either, double excess);

// Of a sum or difference that was computed: what it is as a mix.
void limit_mix(OrderKind kind, RangeCall& call);

}  // namespace finity
