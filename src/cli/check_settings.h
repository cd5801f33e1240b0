// The options that check, explain and baseline share, and finity.toml, which may
// state the same ones. The command line wins.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/analyze.h"
#include "report/known.h"

namespace finity {

struct CheckSettings {
  // What is assumed.
  std::vector<std::string> ranges = {};
  std::vector<std::string> config_ranges = {};
  std::vector<std::string> shapes = {};
  std::optional<std::string> weights = {};
  std::optional<std::string> contract = {};
  // How it is analysed.
  std::optional<std::string> as = {};
  std::optional<std::string> runtime = {};
  std::optional<std::string> accumulate = {};
  std::optional<std::string> tensor = {};
  std::optional<std::string> numeric = {};
  std::optional<std::string> compat = {};
  bool train = false;
  std::optional<std::string> loss = {};
  std::vector<std::string> by = {};
  std::optional<double> time_limit = {};
  std::optional<double> memory_limit = {};
  bool flush_subnormals = false;
  // What is reported.
  Selection selection = {};
  std::optional<std::string> fail_on = {};
  std::optional<std::string> baseline = {};
  std::optional<std::size_t> max_findings = {};
  std::vector<AcceptEntry> accept = {};  // only in the file
  std::optional<double> confirm = {};    // seconds of searching for inputs on which findings come true
  std::optional<std::string> engine = {};
  std::vector<std::string> sites = {};  // where to search: nodes or rules; empty: everywhere
  std::optional<std::size_t> verify = {};
  std::optional<std::uint64_t> seed = {};
  std::optional<std::string> witness = {};
  std::vector<std::string> values = {};  // only on the command line
  std::vector<std::string> data = {};    // likewise: inputs to run the model on
  std::optional<unsigned> jobs = {};
  // finity.toml
  std::string config = {};  // given, or found
  bool no_config = false;
};

// Options about inputs, weights and the analysis: every command that analyses has them.
void add_model_options(CLI::App& command, CheckSettings& settings);
// --select, --ignore, -j.
void add_run_options(CLI::App& command, CheckSettings& settings);

// Finds and reads finity.toml unless it is given or unwanted, and fills what the command line left open.
void load_config(CheckSettings& settings);

// Throw Error for contradictory or unknown values.
Contract contract_of(const CheckSettings& settings);
Bindings bindings_of(const CheckSettings& settings);
CheckOptions check_options_of(const CheckSettings& settings);
DType target_of(const CheckSettings& settings);  // of --as; undefined when it is not given
Verdict fail_on_of(const CheckSettings& settings);

}  // namespace finity
