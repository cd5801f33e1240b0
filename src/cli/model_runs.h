// What running a model shows of its analysis: --verify, --values, findings that come
// true on some input, and the files of such inputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "check/verify.h"
#include "cli/check_model.h"
#include "trigger/search.h"

namespace finity {

// Fills `verified` and `unverified`, and returns an input for every finding that came true. Throws Error when a value
// leaves its range.
std::vector<FailingRun> run_model(Report& report, const ModelAnalysis& model, const CheckPlan& plan);

// Searches inside what was declared for inputs on which findings come true that no run has shown yet; adds to
// `witnesses`.
SearchResult search_model(const ModelAnalysis& model, const CheckPlan& plan, std::vector<FailingRun>& witnesses);

// The engine on LibTorch for requests of so many seconds; null when it was not built. Its process starts with the first
// question.
std::unique_ptr<Worker> torch_engine(double seconds);

}  // namespace finity
