// A model through the whole program, in this process: every command, with options
// drawn at random. Whatever the file holds, a command ends with exit code 0, 1 or 2
// and never speaks of an internal error; anything else ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace finity {

// Standard output and error go to a file in memory from now on; what the sanitizers say does not.
void capture_output();

// On the real standard error.
void tell_user(const std::string& text);

// Writes the model to a file in the current folder and runs a few commands on it. Whether the first, a check, ended
// with exit code 0 or 1. When the process dies the command is printed and the file is left.
bool run_pipeline(const std::string& model, std::uint64_t seed);

}  // namespace finity
