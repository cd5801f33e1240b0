// Which constants of a model are weights that training changes, and what they
// range over under --weights initial and --weights any.
#pragma once

#include <optional>
#include <vector>

#include "check/contract.h"

namespace finity {

struct WeightUse {
  bool parameter = false;  // somewhere its dtype is that of the data, as for weights; not so for Resize's scales
  bool variance = false;   // somewhere it is a variance, which training keeps nonnegative
};
using WeightUses = std::vector<WeightUse>;  // by ValueId

WeightUses weight_uses(const Graph& graph);

// Nothing for a constant that stays exact: scalars, integers, scales of quantisation, equal non-zero elements.
std::optional<Range> weight_range(const Constant& constant, WeightMode mode, const WeightUse& use);

}  // namespace finity
