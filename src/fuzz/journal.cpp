#include "fuzz/journal.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "fuzz/folder.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;

fs::path made(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(fs::path(folder) / "findings", failed);
  if (failed) throw Error(folder + ": " + failed.message());
  return folder;
}

// One campaign, one file.
class LocalJournal final : public Journal {
 public:
  explicit LocalJournal(const JournalOptions& options)
      : options_(options),
        path_((made(options.workdir) / kLedgerFile).string()),
        ledger_(open_sqlite(path_), path_, options.configuration, options.resume),
        next_(ledger_.next()) {
    before_ = ledger_.totals();
    findings_ = before_.findings;
  }

  Next next() override {
    if (options_.models > 0 && next_ >= options_.models) return {};
    return {.turn = Turn::sample, .id = next_++};
  }
  bool knows(const std::string& key) override { return ledger_.knows(key); }
  int looked_into(const std::string& kind) override { return ledger_.looked_into(kind); }

  std::vector<Placed> add(Entry entry, const std::vector<Finding>& findings) override {
    std::vector<Placed> placed;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < findings.size(); ++i) {
      FindingRow row = row_of(findings[i], {});
      const bool is_new = !knows(row.key) && std::ranges::find(keys, row.key) == keys.end();
      if (is_new) {
        // Its folder is written first: a key in the database always has one.
        row.folder = "findings/" + std::to_string(findings_++);
        write_finding(findings[i], (fs::path(options_.workdir) / row.folder).string());
        placed.push_back({.index = i, .folder = row.folder});
      }
      keys.push_back(row.key);
      entry.findings.push_back(std::move(row));
    }
    ledger_.database().begin();
    ledger_.add(entry);
    ledger_.database().commit();
    tally_.add(entry);
    return placed;
  }

  Totals totals(bool) override {
    Totals totals = before_;
    const Counts& c = tally_.totals.counts;
    totals.models += tally_.totals.models;
    totals.findings = findings_;
    totals.ops = std::max(totals.ops, tally_.totals.ops);
    totals.counts.runs += c.runs;
    totals.counts.steps += c.steps;
    totals.counts.elements += c.elements;
    totals.counts.undecided += c.undecided;
    totals.counts.refused += c.refused;
    return totals;
  }

 private:
  JournalOptions options_;
  std::string path_;
  Ledger ledger_;
  std::int64_t next_ = 0, findings_ = 0;
  Totals before_;  // of earlier runs
  Tally tally_;
};

}  // namespace

void Tally::add(const Entry& entry) {
  ++totals.models;
  for (const BackendOutcome& outcome : entry.outcomes) {
    totals.counts.runs += outcome.counts.runs;
    totals.counts.steps += outcome.counts.steps;
    totals.counts.elements += outcome.counts.elements;
    totals.counts.undecided += outcome.counts.undecided;
    totals.counts.refused += outcome.counts.refused;
  }
  for (const auto& [kind, cell] : entry.cells) {
    if (kind != "op") continue;
    const auto at = std::ranges::lower_bound(ops_, cell);
    if (at == ops_.end() || *at != cell) ops_.insert(at, cell);
  }
  totals.ops = ops_.size();
}

std::unique_ptr<Journal> open_journal(const JournalOptions& options) {
  if (!options.store.empty()) return open_shared(options);
  if (options.shard.count > 1) return open_segment(options);
  return std::make_unique<LocalJournal>(options);
}

}  // namespace finity::fuzz
