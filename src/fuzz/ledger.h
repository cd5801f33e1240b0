// What a campaign keeps: a database with the samples, how libraries took them, complaints, findings and coverage.
#pragma once

#include <string>
#include <vector>

#include "fuzz/finding.h"
#include "store/database.h"

namespace finity::fuzz {

struct BackendOutcome {
  BackendSpec backend = {};
  Counts counts = {};
  std::vector<Complaint> complaints = {};
};

class Ledger {
 public:
  // Makes the tables or checks that they are this campaign's. Throws Error when the folder has another one.
  Ledger(const std::string& path, const std::string& configuration, bool resume);

  std::int64_t models() const { return models_; }
  std::int64_t findings() const { return static_cast<std::int64_t>(keys_.size()); }
  std::size_t ops() const { return ops_; }
  Counts counts() const { return counts_; }
  bool knows(const std::string& key) const;
  // How many complaints of this kind were looked into so far.
  int looked_into(const std::string& kind) const;

  // One sample, all in one transaction.
  void begin() { database_.begin(); }
  void add_model(std::int64_t id, const Sample& sample, bool legal);
  void add_outcome(std::int64_t model, const BackendOutcome& outcome);
  void look_into(const std::string& kind);
  // True when it is the first with its key.
  bool add_finding(std::int64_t model, const Finding& finding, const std::string& folder);
  void commit() { database_.commit(); }

 private:
  void make_tables();
  void load();
  void cover(const std::string& kind, const std::string& cell);

  Database database_;
  std::int64_t models_ = 0;
  std::size_t ops_ = 0;
  Counts counts_ = {};
  std::vector<std::string> keys_;
  std::map<std::string, int, std::less<>> looked_;
};

}  // namespace finity::fuzz
