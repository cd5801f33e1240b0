// Helpers shared by the test programs.
#pragma once

#include <string>

namespace finity {

// Whole file; fails the test run with an exception when it is not there.
std::string read_text_file(const std::string& path);

}  // namespace finity
