// How searches print distances and the unsafe values they are measured from.
#pragma once

#include <string>

#include "ops/table/hazard.h"

namespace finity {

// Six digits: nobody reads more of a distance.
std::string distance_text(double x);
// "<= 0", "0 or >= 1".
std::string unsafe_values_text(const UnsafeSet& set);

}  // namespace finity
