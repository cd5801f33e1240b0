// One model from its file to its analysis and report.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check/check_graph.h"
#include "cli/check_settings.h"
#include "report/report.h"

namespace finity {

// What the settings mean, worked out once for all models.
struct CheckPlan {
  Contract contract = {};
  GraphCheckOptions check = {};
  Selection selection = {};
  double confirm = 0;  // seconds of searching; 0: none
  std::vector<std::string> sites = {};
  std::string engine = "auto";
  std::size_t verify = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> values = {};                         // recorded by another program
  std::vector<std::string> data = {};                           // inputs to run the model on
  std::string witness_folder = {};                              // for inputs on which findings come true; "": none
  std::vector<std::pair<std::string, std::string>> shown = {};  // the settings that differ from the default
};
CheckPlan plan_of(const CheckSettings& settings);

// A checked model with what reading it told.
struct ModelAnalysis : CheckedGraph {
  double read_seconds = 0, check_seconds = 0;
  double check_effort = 0;  // seconds of computing
  double list_seconds = 0;  // looking for the nodes to keep
};
ModelAnalysis analyze_model(const std::string& path, const CheckPlan& plan);

// Never throws: what goes wrong is the report's error.
Report check_model(const std::string& path, const CheckPlan& plan);

}  // namespace finity
