// What the bench of DEBAR's evaluation tells: a table of graphs like the paper's Table 1, and the sums per setting
// beside the published ones.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/debar.h"

namespace finity {

struct DebarReport {
  std::vector<DebarSubject> subjects = {};
  std::vector<DebarSetting> settings = {};             // in the order in which they are shown
  std::vector<std::vector<DebarResult>> results = {};  // by setting, then by subject; shorter when it was interrupted
  double limit = 0;

  // Sums over all subjects that could be checked.
  struct Sum {
    std::size_t checked = 0, failed = 0, stopped = 0;
    std::size_t sites = 0, proved = 0, possible = 0, unknown = 0;
    DebarScore score = {};
    double seconds = 0;
    std::size_t peak_bytes = 0;
  };
  Sum sum(std::size_t setting) const;
  // Sites that `weaker` proves and `stronger` does not, as "graph: node".
  std::vector<std::string> lost(std::size_t weaker, std::size_t stronger) const;
};

// Throws Error naming the formats.
std::string debar_in_format(const DebarReport& report, std::string_view format);

}  // namespace finity
