// Helpers shared by the test programs.
#pragma once

#include <string>
#include <vector>

#include "ops/table/datum.h"
#include "types/infer.h"

namespace finity {

// Whole file; fails the test run with an exception when it is not there.
std::string read_text_file(const std::string& path);

// How what inference claims of the main outputs is untrue of what evaluation gave; empty when it is true.
std::string type_contradiction(const Graph& graph, const Types& types, const std::vector<Datum>& outputs);

}  // namespace finity
