// Ranges in words, and what must be true of every range.
#pragma once

#include <string>

#include "check/analyze.h"

namespace finity {

std::string shown(const AbsTensor& x);

// Ends of ranges are values of their format. The first value of which that is not so, or "".
std::string end_outside_format(const Graph& graph, const Analysis& analysis);

}  // namespace finity
