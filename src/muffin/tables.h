// What runs of baselines come to, as plain tables: inconsistencies per stage and pair of libraries, NaN and crashes,
// coverage, time, votes, and how counts depend on the threshold.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace finity::muffin {

struct Table {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

// A run: what it is called, and its work folder.
struct RunName {
  std::string environment = {}, mode = {}, folder = {};
};

// Throws Error naming the folder that holds no run.
std::vector<Table> tables_of(const std::vector<RunName>& names);

// "text", "csv", "markdown" or "json". Throws Error naming them.
std::string in_format(const std::vector<Table>& tables, std::string_view format);

}  // namespace finity::muffin
