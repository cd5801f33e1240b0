// A failing training run as a folder that anyone can run again: the program, its data and every batch that led there,
// and beside it the last step alone, as a model with its inputs.
#pragma once

#include <string>

#include "program/search_program.h"

namespace finity {

inline constexpr std::string_view kProgramDescription = "program.toml";

// The path of what was written, whole or not at all. `number`: of several failures of one program.
std::string write_program_witness(const Program& program, const ProgramOutcome& outcome, const ProgramSearch& search,
                                  const std::string& folder, std::size_t number = 1);
// Repeats the training run of such a folder and prints what each engine gives; true when it failed again.
bool replay_program(const std::string& folder);

}  // namespace finity
