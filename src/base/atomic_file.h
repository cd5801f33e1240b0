// Results reach disk whole or not at all: written beside the target under a
// temporary name, then renamed over it. Pipes and devices are written directly.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace finity {

void write_file_atomically(const std::string& path, std::string_view content);

}  // namespace finity
