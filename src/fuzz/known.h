// Faults of libraries that are known already, each with its public number, so that a campaign can say what is new. The
// table names them only afterwards: nothing of it enters the generator or the oracle.
#pragma once

#include <string>

#include "fuzz/finding.h"

namespace finity::fuzz {

// "#11994: a chain of casts is merged" or empty.
std::string known_fault(const Finding& finding);

}  // namespace finity::fuzz
