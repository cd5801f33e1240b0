// Tables as people and programs read them.
#pragma once

#include <string>
#include <vector>

namespace finity {

using Cells = std::vector<std::string>;

// The first line is the header.
std::string table_text(const std::vector<Cells>& lines);
std::string table_csv(const std::vector<Cells>& lines);
std::string table_markdown(const std::vector<Cells>& lines);

std::string fixed(double x, int digits = 2);

}  // namespace finity
