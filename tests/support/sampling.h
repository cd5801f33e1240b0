// Concrete runs against what the checker claims: the oracle that needs no expectation.
#pragma once

#include <string>

#include "check/analyze.h"
#include "exec/reference.h"

namespace finity {

// Runs the graph on inputs drawn inside the premises (ends, zeros, tiny and random values) and looks at
// every node's results. The first value outside its range in words, or "". What happens after an alarm
// that came true is not looked at. Inputs bound by relations are not drawn and
// graphs with unknown sizes are not run: "" then.
std::string sample_escape(const Graph& graph, const Types& types, const Premises& premises, const Contract& contract,
                          const Analysis& analysis, int runs);

// Runs the graph; "" when a result of the node called `name` (after one of its results) is NaN or infinite, else why
// not.
std::string why_no_failure(const Graph& graph, const Inputs& inputs, const std::string& name);

}  // namespace finity
