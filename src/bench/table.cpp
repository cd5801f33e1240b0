#include "bench/table.h"

#include <algorithm>
#include <cstdio>

namespace finity {

namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string table_text(const std::vector<Cells>& lines) {
  // What ends a shorter line, an error say, makes no column wider.
  std::vector<std::size_t> widths;
  for (const Cells& line : lines) widths.resize(std::max(widths.size(), line.size()));
  for (const Cells& line : lines) {
    const std::size_t count = line.size() < widths.size() && !line.empty() ? line.size() - 1 : line.size();
    for (std::size_t i = 0; i < count; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Cells& line : lines) {
    std::string one;
    for (std::size_t i = 0; i < line.size(); ++i) {
      one += line[i] + std::string(std::max(widths[i], line[i].size()) - line[i].size() + 2, ' ');
    }
    text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string table_csv(const std::vector<Cells>& lines) {
  std::string text;
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) text += (i > 0 ? "," : "") + csv_cell(line[i]);
    text += "\n";
  }
  return text;
}

std::string table_markdown(const std::vector<Cells>& lines) {
  std::string text;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    text += "|";
    for (const std::string& cell : lines[row]) text += " " + cell + " |";
    text += "\n";
    if (row > 0) continue;
    text += "|";
    for (std::size_t i = 0; i < lines[row].size(); ++i) text += "---|";
    text += "\n";
  }
  return text;
}

std::string fixed(double x, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

}  // namespace finity
