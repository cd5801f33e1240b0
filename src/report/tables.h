// Small tables at the end of the text report.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace finity {

// One line per model, worst first, and a line that counts them.
std::string models_table(const std::vector<Report>& reports);
// One line per rule that has sites: how they came out over all models. Those with the most open sites come first.
std::string statistics_table(const std::vector<Report>& reports);

}  // namespace finity
