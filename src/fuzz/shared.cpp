// A campaign on a server. Samples are claimed in ranges: a range belongs to one worker until it has been done or its
// owner showed no life for some minutes, and a sample is kept only by the range's owner of that moment, so none is kept
// twice. Findings are told apart by the key of the table, whoever comes first.
#include <unistd.h>

#include <chrono>
#include <deque>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "fuzz/folder.h"
#include "fuzz/journal.h"

namespace finity::fuzz {

namespace {

constexpr std::int64_t kRange = 32;
constexpr int kAttempts = 20;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS claim(id BIGINT PRIMARY KEY, owner TEXT, until DOUBLE PRECISION, next BIGINT);"
    "CREATE TABLE IF NOT EXISTS file(finding TEXT, name TEXT, content BYTEA, PRIMARY KEY(finding, name))";
// The server's clock: those of the machines may differ.
constexpr const char* kNow = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)";

std::string worker_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + " " + std::to_string(::getpid()) + " " + std::to_string(std::random_device{}());
}

// Tables are made by one worker at a time.
std::unique_ptr<Database> prepared(const std::string& address) {
  std::unique_ptr<Database> database = open_postgresql(address);
  database->query("SELECT pg_advisory_lock(66371)");
  database->run(kTables);
  return database;
}

class SharedJournal final : public Journal {
 public:
  explicit SharedJournal(const JournalOptions& options)
      : options_(options),
        me_(worker_name()),
        ledger_(prepared(options.store), "the store", options.configuration, true),
        db_(ledger_.database()) {
    db_.query("SELECT pg_advisory_unlock(66371)");
    seen_ = ledger_.totals();
  }
  ~SharedJournal() override {
    try {
      db_.run("UPDATE claim SET owner = '', until = 0 WHERE owner = ?", {me_});
    } catch (const Error&) {  // then they expire
    }
  }

  Next next() override {
    if (mine_.empty() && !claim()) return {.turn = unfinished() ? Turn::wait : Turn::over};
    const std::int64_t id = mine_.front();
    mine_.pop_front();
    return {.turn = Turn::sample, .id = id};
  }

  bool knows(const std::string& key) override {
    return again([&] { return ledger_.knows(key); });
  }
  int looked_into(const std::string& kind) override {
    return again([&] { return ledger_.looked_into(kind); });
  }

  std::vector<Placed> add(Entry entry, const std::vector<Finding>& findings) override {
    for (const Finding& finding : findings) entry.findings.push_back(row_of(finding, {}));
    std::vector<Placed> placed;
    again([&] {
      placed.clear();
      transaction([&] { placed = write(entry, findings); });
      return true;
    });
    return placed;
  }

  Totals totals(bool now) override {
    const auto time = std::chrono::steady_clock::now();
    if (!now && time - asked_ < std::chrono::seconds(2)) return seen_;
    asked_ = time;
    return seen_ = again([&] { return ledger_.totals(); });
  }

 private:
  // The transaction again when another one was in its way, or the server was away for a moment.
  template <typename Work>
  std::invoke_result_t<const Work&> again(const Work& work) {
    for (int attempt = 1;; ++attempt) {
      try {
        return work();
      } catch (const TryAgain&) {
        if (attempt == kAttempts) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(50 * attempt));
      }
    }
  }

  void transaction(const std::function<void()>& work) {
    db_.begin();
    try {
      work();
      db_.commit();
    } catch (...) {
      db_.roll_back();
      throw;
    }
  }

  std::int64_t end_of(std::int64_t range) const {
    const std::int64_t end = (range + 1) * kRange;
    return options_.models > 0 ? std::min(end, options_.models) : end;
  }

  std::vector<Placed> write(const Entry& entry, const std::vector<Finding>& findings) {
    std::vector<Placed> placed;
    const std::vector<Row> ours =
        db_.query("UPDATE claim SET next = next + 1 WHERE id = ? AND owner = ? AND next = ? RETURNING id",
                  {entry.id / kRange, me_, entry.id});
    if (ours.empty()) return placed;  // somebody else took it over
    db_.run("UPDATE claim SET until = " + until() + " WHERE owner = ?", {me_});
    if (!entry.findings.empty()) db_.run("LOCK TABLE finding IN EXCLUSIVE MODE");
    std::set<std::string> fresh;
    for (const FindingRow& row : ledger_.add(entry)) fresh.insert(row.key);
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (fresh.erase(findings[i].key) == 0) continue;
      db_.run("UPDATE finding SET folder = 'findings/' || CAST(id AS TEXT) WHERE key = ?", {findings[i].key});
      for (const auto& [name, content] : finding_files(findings[i]))
        db_.run("INSERT INTO file VALUES(?, ?, ?)", {findings[i].key, name, Bytes{content}});
      placed.push_back(
          {.index = i,
           .folder = as_text(db_.query("SELECT folder FROM finding WHERE key = ?", {findings[i].key})[0][0])});
    }
    return placed;
  }

  std::string until() const {
    std::string text = kNow;
    text += " + ";
    text += std::to_string(options_.claim_seconds);
    return text;
  }

  // Takes over what has no owner any more, else a new range.
  bool claim() {
    std::int64_t range = -1, from = 0;
    again([&] {
      range = -1;
      transaction([&] {
        const std::vector<Row> left =
            db_.query("SELECT id, next FROM claim WHERE next < (id + 1) * " + std::to_string(kRange) + limit() +
                      " AND (owner = '' OR until < " + kNow + ") ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED");
        if (!left.empty()) {
          range = as_int(left[0][0]);
          from = as_int(left[0][1]);
          db_.run("UPDATE claim SET owner = ?, until = " + until() + " WHERE id = ?", {me_, range});
        } else {
          range = new_range();
          from = range * kRange;
        }
      });
      return true;
    });
    if (range < 0) return false;
    for (std::int64_t id = from; id < end_of(range); ++id) mine_.push_back(id);
    return !mine_.empty();
  }

  std::string limit() const { return options_.models > 0 ? " AND next < " + std::to_string(options_.models) : ""; }

  std::int64_t new_range() {
    for (;;) {
      const std::int64_t range = as_int(db_.query("SELECT COALESCE(MAX(id) + 1, 0) FROM claim")[0][0]);
      if (options_.models > 0 && range * kRange >= options_.models) return -1;
      const std::vector<Row> made = db_.query("INSERT INTO claim SELECT CAST(? AS BIGINT), ?, " + until() +
                                                  ", CAST(? AS BIGINT) ON CONFLICT(id) DO NOTHING RETURNING id",
                                              {range, me_, range * kRange});
      if (!made.empty()) return range;
    }
  }

  bool unfinished() {
    return again([&] {
      return !db_.query("SELECT 1 FROM claim WHERE next < (id + 1) * " + std::to_string(kRange) + limit() + " LIMIT 1")
                  .empty();
    });
  }

  JournalOptions options_;
  std::string me_;
  Ledger ledger_;
  Database& db_;
  std::deque<std::int64_t> mine_;
  Totals seen_;
  std::chrono::steady_clock::time_point asked_ = {};
};

}  // namespace

std::unique_ptr<Journal> open_shared(const JournalOptions& options) { return std::make_unique<SharedJournal>(options); }

}  // namespace finity::fuzz
