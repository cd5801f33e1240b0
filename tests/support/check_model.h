// What `finity check` does with a model and a contract, for tests.
#pragma once

#include <string>

#include "check/analyze.h"
#include "support/check_case.h"

namespace finity {

struct CheckedModel {
  Graph graph = {};  // converted, when the case asks for another format
  Types types = {};
  Premises premises = {};
  Analysis analysis = {};  // with the findings about constants and inputs
};

CheckedModel check(const CheckCase& test);

// "  possible y FN101 seen [0, 3]\n"
std::string describe_finding(const Graph& graph, const Finding& finding);

}  // namespace finity
