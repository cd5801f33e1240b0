// Findings that are known and accepted: by entries of the configuration file, and
// by a baseline file that an earlier run wrote. They stay in the report but do not
// count. Entries that no longer match anything are told, so that lists stay short.
#pragma once

#include <string>
#include <vector>

#include "report/collect.h"
#include "report/report.h"

namespace finity {

// [[check.accept]] of finity.toml.
struct AcceptEntry {
  std::string rule = {};    // prefix of a code, or a slug
  std::string node = "*";   // glob over node and tensor names
  std::string model = "*";  // glob over the model's path and file name
  std::string reason = {};
  std::string where = {};  // "finity.toml:12"
  bool used = false;
};

struct BaselineEntry {
  std::string fingerprint = {};
  std::string rule = {};
  std::string node = {};
  std::string model = {};  // path, absolute and without dots; in the file relative to the file's folder
  bool used = false;
};

struct Known {
  std::vector<AcceptEntry> accept = {};
  std::string baseline_file = {};
  std::vector<BaselineEntry> baseline = {};
};

// Marks the alarms of the report that are known.
void accept_known(Report& report, Known& known);
// One line for each entry that speaks of a checked model and a selected rule, and matched nothing.
std::vector<std::string> stale_entries(const Known& known, const std::vector<Report>& reports,
                                       const Selection& selection);

// Throws Error naming the file.
std::vector<BaselineEntry> read_baseline(const std::string& path);
std::vector<BaselineEntry> parse_baseline(std::string_view text, const std::string& file);
// Every alarm that counts, for a baseline that will stand at `file`.
std::string write_baseline(const std::vector<Report>& reports, const std::string& file);

}  // namespace finity
