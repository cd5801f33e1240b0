// What running a model shows of its analysis: --verify, --values, findings that come
// true on some input, and the files of such inputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "check/verify.h"
#include "cli/check_model.h"

namespace finity {

// Fills `verified` and `unverified`, and returns an input for every finding that came true. Throws Error when a value
// leaves its range.
std::vector<FailingRun> run_model(Report& report, const ModelAnalysis& model, const CheckPlan& plan);

// One folder per confirmed finding: inputs.npz and test_data_set_0 as ONNX tests have it. Each appears whole or not at
// all. Sets `failure.folder` of the alarms.
void write_witnesses(Report& report, const Graph& graph, std::span<const FailingRun> witnesses,
                     const std::string& folder);

}  // namespace finity
