// What shows a finding without finity: a program for the library alone, and the files that it reads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuzz/finding.h"

namespace finity::fuzz {

// Names and contents; none for a library that has no such program.
std::vector<std::pair<std::string, std::string>> reproducers(const Finding& finding);
// The command that runs it; empty when there is none.
std::string reproducer_use(const Finding& finding);

}  // namespace finity::fuzz
