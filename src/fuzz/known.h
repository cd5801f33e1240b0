// Faults of libraries that are known already, each with its public number, so that a campaign can say what is new. The
// table names them only afterwards: nothing of it enters the generator or the oracle.
#pragma once

#include <string>
#include <vector>

#include "fuzz/finding.h"

namespace finity::fuzz {

// "#11994: a chain of casts is merged" or empty.
std::string known_fault(const Finding& finding);

// A fault that a version is known to have. Not `exact`: nobody noted which versions have it, or the table describes it
// so widely that something else may look the same.
struct KnownFault {
  std::string text = {};
  bool exact = true;
};
// All of them whose shape the finding has and whose versions include that of its library.
std::vector<KnownFault> known_faults(const Finding& finding);

}  // namespace finity::fuzz
