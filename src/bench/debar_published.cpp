// Tables 1 and 3 of "Detecting Numerical Bugs in Neural Network Architectures" (ESEC/FSE 2020), the nine subjects with
// known bugs and the sum over all 57. Table 3 has 24 subjects, so its cells are missing for the others.
#include <algorithm>

#include "bench/debar_graphs.h"

namespace finity {

namespace {

constexpr DebarPublished kTable[] = {
    {"TensorFuzz", 4, 0, 0, 1.9, 0, 0, 0, 0, 0, 0, 29.6},
    {"GitHub-IPS-1", 1, 4, 0, 2.3, 4, 0, 4, 0},
    {"GitHub-IPS-6", 2, 0, 0, 1.7, 0, 0, 0, 0, 0, 0, 3.2},
    {"GitHub-IPS-9", 1, 0, 0, 1.7, 0, 0, 0, 0, 0, 0, 3.1},
    {"StackOverflow-IPS-1", 1, 1, 0, 1.8, 1, 0, 1, 0},
    {"StackOverflow-IPS-2", 1, 1, 0, 1.8, 1, 0, 1, 0},
    {"StackOverflow-IPS-6", 1, 1, 0, 1.8, 1, 0, 1, 0},
    {"StackOverflow-IPS-7", 2, 0, 0, 1.7, 0, 0, 0, 0, 0, 0, 72.4},
    {"StackOverflow-IPS-14", 1, 0, 0, 1.7, 0, 0, 0, 0, 0, 0, 2.4},
    {"Total", 313, 2760, 230, 691.1, 2564, 426, 2349, 641},
};

}  // namespace

const DebarPublished* find_debar_published(std::string_view name) {
  const auto* found = std::ranges::find(kTable, name, &DebarPublished::name);
  return found == std::ranges::end(kTable) ? nullptr : found;
}

}  // namespace finity
