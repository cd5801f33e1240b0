// Descriptions of training programs: TOML beside a model, see docs/trigger.md. What is printed reads back as the same
// program; the worker gets its program that way, and a witness holds one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "program/program.h"

namespace finity {

// Whether a file is a program rather than a model: by its name.
bool is_program_file(std::string_view path);

// Throws Error with file, line and reason.
Program read_program(const std::string& path);

// Where the model and the data of a description come from when not from files beside it.
struct ProgramParts {
  std::shared_ptr<const Graph> graph = {};
  std::map<std::string, Tensor> data = {};  // by key of "given:KEY"
};
Program parse_program(std::string_view text, const std::string& file, const std::string& folder,
                      const ProgramParts& parts = {});

// The description of a settled program and the arrays it refers to. Data is written as `prefix`KEY: "given:x" for the
// worker, "npz:data.npz#x" for files.
struct PrintedProgram {
  std::string text = {};
  std::map<std::string, Tensor> data = {};
};
PrintedProgram print_program(const Program& program, const std::string& model, const std::string& prefix);

}  // namespace finity
