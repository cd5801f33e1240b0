// What `finity check` does with a model and a contract, for tests.
#pragma once

#include <string>

#include "check/check_graph.h"
#include "support/check_case.h"

namespace finity {

using CheckedModel = CheckedGraph;

CheckedModel check(const CheckCase& test);

// "  possible y FN101 seen [0, 3]\n"
std::string describe_finding(const Graph& graph, const Finding& finding);

}  // namespace finity
