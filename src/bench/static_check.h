// What a check says of a bug of the bench and of its repaired twin: is the right operation reported, is it proved when
// it is repaired, and what else is reported.
#pragma once

#include <string>
#include <vector>

#include "bench/grist.h"
#include "check/check_graph.h"

namespace finity {

// An operation that a check of the program reports beside the bug.
struct OtherAlarm {
  std::string node = {};
  std::string op = {};
  std::string rule = {};
  std::string seen = {};  // what reaches it
};

struct StaticVerdict {
  bool found = false;                   // the bug is reported, by its rule
  bool repair_proved = false;           // the operation of the twin is proved
  std::string problem = {};             // why not
  std::vector<OtherAlarm> others = {};  // in the program with the bug; what only follows from another is left out
  double seconds = 0;                   // of both checks
};

// The program's graph, checked for the inputs and weights that are legal; the backward pass too where the bug is there.
CheckedGraph check_recipe(const Recipe& recipe, const GristBug& bug);
StaticVerdict check_bug(const GristBug& bug);

}  // namespace finity
