// What a sample covers: ops, operator sets, attributes and pairs of them, edges between ops, and forms of operands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuzz/sample.h"

namespace finity::fuzz {

// Kind and name of a cell: ("edge", "Pad MaxPool").
using CoverageCell = std::pair<std::string, std::string>;

// Every cell as often as the sample holds it.
std::vector<CoverageCell> coverage_cells(const Sample& sample);

}  // namespace finity::fuzz
