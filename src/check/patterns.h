// Findings at a known way of writing something badly get the rule that names it.
#pragma once

#include <vector>

#include "check/analyze.h"

namespace finity {

void name_patterns(const Graph& graph, Analysis& analysis);

}  // namespace finity
