// The analysis put to the test by somebody else: tensors that another program
// recorded while it ran the model on inputs inside the premises must lie in their
// ranges.
#pragma once

#include <string>
#include <vector>

#include "check/analyze.h"
#include "check/judge.h"
#include "formats/recorded_values.h"

namespace finity {

struct RecordedReport : Judged {
  int runs = 0;
  std::vector<std::string> unmatched = {};   // names that are no value of the main graph, each once
  std::vector<std::string> unrecorded = {};  // inputs whose elements are not known, each once
  std::vector<std::string> outside = {};     // "'h' element [0,1] is 25, outside [0, 24]"
  std::size_t following = 0;                 // tensors outside that were computed from such
};

// Compares one run and adds to the report. Throws Error when an input or weight is outside the premises: then nothing
// is promised of anything.
void compare_recorded(const Graph& graph, const Premises& premises, const Analysis& analysis,
                      const RecordedValues& recorded, RecordedReport& report);

}  // namespace finity
