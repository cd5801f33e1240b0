// One model from its file to its analysis and report.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check/analyze.h"
#include "cli/check_settings.h"
#include "report/report.h"

namespace finity {

// What the settings mean, worked out once for all models.
struct CheckPlan {
  Contract contract = {};
  Bindings bindings = {};
  CheckOptions options = {};
  DType target = DType::undefined;
  Selection selection = {};
  std::size_t verify = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> values = {};                         // recorded by another program
  std::vector<std::pair<std::string, std::string>> shown = {};  // the settings that differ from the default
};
CheckPlan plan_of(const CheckSettings& settings);

// Everything known of one model; the graph is the converted one when a target format was asked for.
struct ModelAnalysis {
  Graph graph = {};
  Types types = {};
  Graph original = {};  // as read, when it was converted
  Types original_types = {};
  Premises premises = {};
  Analysis analysis = {};
  std::vector<Note> notes = {};  // of reading, typing and assuming
  double read_seconds = 0, check_seconds = 0;
};
ModelAnalysis analyze_model(const std::string& path, const CheckPlan& plan);

// Never throws: what goes wrong is the report's error.
Report check_model(const std::string& path, const CheckPlan& plan);

}  // namespace finity
