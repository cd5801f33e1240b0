// Operands that runtimes are known to stumble over, inside what an analysis was told of them.
#pragma once

#include <vector>

#include "base/rng.h"
#include "check/contract.h"
#include "exec/reference.h"
#include "kernels/subjects.h"

namespace finity::kernels {

struct Told {
  Premises premises = {};
  std::vector<Inputs> inputs = {};  // all inside the premises
};

// The inputs of the case, then ranges of all kinds around them, each with drawn inputs: constant and masked rows, huge
// and subnormal numbers, almost equal ones, NaN and infinities where the premises allow them.
std::vector<Told> drawn_operands(const Subject& subject, std::uint64_t seed, int mixes);

}  // namespace finity::kernels
