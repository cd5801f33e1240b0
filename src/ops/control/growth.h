// How fast a loop's state can grow: |new state| <= max(slope * |old state|, floor) + offset, read off the body of the
// loop. A state that is added to in every iteration has no range that holds for ever, but after n iterations it is at
// most |start| + n * offset (a little more with rounding): the cell of an LSTM, a running sum. A state that is mixed
// with something smaller, z * old + (1 - z) * new, does not grow at all: a GRU's.
#pragma once

#include <functional>

#include "domain/abs_tensor.h"
#include "graph/graph.h"

namespace finity {

struct Growth {
  double slope = 0;
  double offset = kInf;
  double floor = 0;
};

// Of what the body hands on as `output`, in terms of its input `state`. `range_of` says what is known of every value of
// the body and around it, for states that may be any finite number.
Growth growth_of(const Graph& graph, BodyId body, ValueId state, ValueId output,
                 const std::function<const AbsTensor*(ValueId)>& range_of);

// A magnitude that no iteration exceeds, `trips` of them; infinite when there is none.
double largest_after(double trips, double start, const Growth& each);

}  // namespace finity
