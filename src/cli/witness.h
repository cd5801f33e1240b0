// Inputs on which findings came true, as folders that anyone can run again.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "check/verify.h"
#include "report/report.h"

namespace finity {

inline constexpr std::string_view kWitnessModel = "model.onnx";
inline constexpr std::string_view kWitnessDescription = "finding.json";

// One folder per confirmed finding: the model as it was run, inputs.npz, test_data_set_0 as ONNX tests have it, and
// what was seen. Each appears whole or not at all. Sets `failure.folder` of the alarms.
void write_witnesses(Report& report, const Graph& graph, std::span<const FailingRun> witnesses,
                     const std::string& folder);

}  // namespace finity
