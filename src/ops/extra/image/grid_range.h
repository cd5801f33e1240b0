// Ranges of what flows back through samples, and what they share with those of samples.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

double longest_axis(const AbsTensor& x);
// Positions that are not finite, also after they were scaled, have no weights. `size`: of the longest axis.
bool loses_positions(const Range& grid, double size);

void range_grid_sample_gradient(RangeCall& call);
void range_grid_sample_slopes(RangeCall& call);

}  // namespace finity
