// finity trigger program.toml: searches for training runs of a program that end in NaN or Inf.
#pragma once

#include <optional>
#include <string>

#include "cli/check_settings.h"
#include "program/search_program.h"

namespace finity {

struct ProgramSettings {
  std::string strategy = "auto";
  double epsilon = 0.15;
  double switch_rate = 0.05;
  std::string clock = "wall";  // what --time-limit counts in
};

// Prints what came of it; the result is the exit code.
int trigger_program(const std::string& path, const CheckSettings& settings, const ProgramSettings& own, bool json);

// The same for a TensorFlow graph with an optimiser; nothing when the file is none, or cannot be run as a program,
// which a note on standard error says.
std::optional<int> trigger_training_graph(const std::string& path, const CheckSettings& settings,
                                          const ProgramSettings& own, bool json);

}  // namespace finity
