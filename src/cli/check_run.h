// A run over many models: threads, progress, interruption, accepted findings.
#pragma once

#include <string>
#include <vector>

#include "cli/check_settings.h"
#include "report/report.h"

namespace finity {

// Reports come in the order of the models. Ctrl-C leaves out what is not finished; then `interrupted` is set and
// threads may still be at work: write the result and call finish_interrupted().
CheckResult check_models(const std::vector<std::string>& models, const CheckSettings& settings);

// One line on stderr for each model that could not be checked, and for each warning.
void print_problems(const CheckResult& result);

// Ends the process with exit code 2, without waiting for anybody.
[[noreturn]] void finish_interrupted();

}  // namespace finity
