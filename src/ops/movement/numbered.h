// Elements that are found again by their numbers.
#pragma once

#include <vector>

#include "ops/table/build_call.h"

namespace finity {

// Results whose elements are those of another value with these numbers, counted from 1; 0 is none of them.
struct Numbered {
  ValueId numbers = {};
  ValueId arriving = {};
};

// The gradient of x: what arrives wherever its elements went, added up.
ValueId added_up(BuildCall& call, ValueId x, const std::vector<Numbered>& parts);

}  // namespace finity
