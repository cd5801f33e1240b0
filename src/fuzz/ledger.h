// What a campaign keeps, in a database: the samples, how libraries took them, complaints, findings and coverage. The
// statements are the same for a file of one campaign and for a server that many machines write to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuzz/entry.h"
#include "store/database.h"

namespace finity::fuzz {

inline constexpr const char* kLedgerFile = "campaign.sqlite";

struct Totals {
  std::int64_t models = 0, findings = 0;
  std::size_t ops = 0;  // distinct ones used
  Counts counts = {};
};

class Ledger {
 public:
  // Makes the tables or checks that they are this campaign's. `where` is for messages. Throws Error when it is another
  // campaign's, or when there is one and nobody asked to go on.
  Ledger(std::unique_ptr<Database> database, const std::string& where, const std::string& configuration, bool resume);

  Database& database() { return *database_; }
  Totals totals();
  // Behind the last sample.
  std::int64_t next();
  bool knows(const std::string& key);
  // How many complaints of this kind were looked into so far.
  int looked_into(const std::string& kind);

  // Inside a transaction of the caller's. Rows are written in one order, so that two writers cannot block each other.
  // Findings that were there already are only counted. The rows of those that are new.
  std::vector<FindingRow> add(const Entry& entry);

 private:
  bool add_finding(std::int64_t model, const FindingRow& finding);

  std::unique_ptr<Database> database_;
};

}  // namespace finity::fuzz
