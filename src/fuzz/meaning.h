// What operators mean, in a sentence each, for the page of a finding: what the library's result contradicts.
#pragma once

#include <string>
#include <vector>

#include "fuzz/sample.h"

namespace finity::fuzz {

// One sentence per distinct op of the sample, in order.
std::vector<std::string> meanings(const Sample& sample);

}  // namespace finity::fuzz
