// The files of testdata/ops, built into the program (cmake/probe_cases.cmake).
#pragma once

#include <span>
#include <string_view>

namespace finity {

std::span<const std::string_view> probe_cases();

}  // namespace finity
