// Everything that a campaign keeps of one sample, as plain data: what one transaction of a database or one line of a
// shard's segment holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/coverage.h"
#include "fuzz/finding.h"

namespace finity::fuzz {

struct BackendOutcome {
  BackendSpec backend = {};
  Counts counts = {};
  std::vector<Complaint> complaints = {};
};

// A finding without its sample: that is in its folder.
struct FindingRow {
  std::string key = {}, backend = {}, symptom = {}, chain = {}, versions = {}, known = {}, text = {};
  bool optimised = false, proven = true;
  std::int64_t steps = 0;
  std::string folder = {};  // from the work folder; of a finding that was there before: empty
};

struct Entry {
  std::int64_t id = 0;
  std::string origin = {}, chain = {};
  std::int64_t opset = 0;
  bool legal = true;
  std::vector<CoverageCell> cells = {};
  std::vector<BackendOutcome> outcomes = {};
  std::vector<std::string> looked = {};  // kinds of complaints that were looked into
  std::vector<FindingRow> findings = {};
};

FindingRow row_of(const Finding& finding, const std::string& folder);

// One line of JSON, and back. Throws Error when it is something else.
std::string to_line(const Entry& entry);
Entry entry_of(std::string_view line);

}  // namespace finity::fuzz
