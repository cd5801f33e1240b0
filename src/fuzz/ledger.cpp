#include "fuzz/ledger.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace finity::fuzz {

namespace {

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS run(name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS model(id BIGINT PRIMARY KEY, origin TEXT, chain TEXT, opset BIGINT, legal BIGINT);
CREATE TABLE IF NOT EXISTS execution(model BIGINT, backend TEXT, runs BIGINT, steps BIGINT, elements BIGINT,
                                     undecided BIGINT, refused BIGINT);
CREATE TABLE IF NOT EXISTS complaint(model BIGINT, backend TEXT, symptom TEXT, optimised BIGINT, op TEXT, tensor TEXT,
                                     element BIGINT, proven BIGINT, text TEXT);
CREATE TABLE IF NOT EXISTS finding(key TEXT PRIMARY KEY, id BIGINT, model BIGINT, backend TEXT, symptom TEXT,
                                   optimised BIGINT, proven BIGINT, chain TEXT, steps BIGINT, versions TEXT,
                                   known TEXT, folder TEXT, text TEXT, hits BIGINT);
CREATE TABLE IF NOT EXISTS looked(kind TEXT PRIMARY KEY, times BIGINT);
CREATE TABLE IF NOT EXISTS coverage(kind TEXT, cell TEXT, hits BIGINT, first BIGINT, PRIMARY KEY(kind, cell));
)";

Cell number(std::int64_t value) { return value; }
Cell flag(bool value) { return std::int64_t{value ? 1 : 0}; }

}  // namespace

Ledger::Ledger(std::unique_ptr<Database> database, const std::string& where, const std::string& configuration,
               bool resume)
    : database_(std::move(database)) {
  database_->run(kTables);
  const auto stored = [&] { return database_->query("SELECT value FROM run WHERE name = 'configuration'"); };
  std::vector<Row> before = stored();
  if (!before.empty() && !resume)
    throw Error(where + ": holds a campaign already; go on with --resume, or choose another --workdir");
  if (before.empty()) {
    database_->run("INSERT INTO run VALUES('configuration', ?) ON CONFLICT(name) DO NOTHING", {configuration});
    before = stored();
  }
  if (as_text(before[0][0]) != configuration)
    throw Error(where + ": holds another campaign (" + as_text(before[0][0]) + ")");
}

std::int64_t Ledger::next() { return as_int(database_->query("SELECT COALESCE(MAX(id) + 1, 0) FROM model")[0][0]); }

Totals Ledger::totals() {
  const auto count = [&](const char* sql) { return as_int(database_->query(sql)[0][0]); };
  Totals totals{.models = count("SELECT COUNT(*) FROM model"),
                .findings = count("SELECT COUNT(*) FROM finding"),
                .ops = static_cast<std::size_t>(count("SELECT COUNT(*) FROM coverage WHERE kind = 'op'"))};
  const Row sums =
      database_->query("SELECT SUM(runs), SUM(steps), SUM(elements), SUM(undecided), SUM(refused) FROM execution")[0];
  totals.counts = {as_int(sums[0]), as_int(sums[1]), as_int(sums[2]), as_int(sums[3]), as_int(sums[4])};
  return totals;
}

bool Ledger::knows(const std::string& key) {
  return !database_->query("SELECT 1 FROM finding WHERE key = ?", {key}).empty();
}

int Ledger::looked_into(const std::string& kind) {
  const std::vector<Row> rows = database_->query("SELECT times FROM looked WHERE kind = ?", {kind});
  return rows.empty() ? 0 : static_cast<int>(as_int(rows[0][0]));
}

std::vector<FindingRow> Ledger::add(const Entry& entry) {
  database_->run("INSERT INTO model VALUES(?, ?, ?, ?, ?)",
                 {number(entry.id), entry.origin, entry.chain, number(entry.opset), flag(entry.legal)});
  for (const BackendOutcome& outcome : entry.outcomes) {
    const Counts& c = outcome.counts;
    database_->run("INSERT INTO execution VALUES(?, ?, ?, ?, ?, ?, ?)",
                   {number(entry.id), outcome.backend.text(), number(c.runs), number(c.steps), number(c.elements),
                    number(c.undecided), number(c.refused)});
    for (const Complaint& complaint : outcome.complaints) {
      database_->run("INSERT INTO complaint VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                     {number(entry.id), outcome.backend.text(), std::string(name(complaint.symptom)),
                      flag(complaint.level != Optimisation::none), complaint.op, complaint.tensor,
                      number(complaint.element), flag(complaint.proven), complaint.text});
    }
  }
  std::map<CoverageCell, std::int64_t> cells;
  for (const CoverageCell& cell : entry.cells) ++cells[cell];
  for (const auto& [cell, hits] : cells)
    database_->run(
        "INSERT INTO coverage VALUES(?, ?, ?, ?) ON CONFLICT(kind, cell) DO UPDATE SET "
        "hits = coverage.hits + excluded.hits, first = CASE WHEN excluded.first < coverage.first "
        "THEN excluded.first ELSE coverage.first END",
        {cell.first, cell.second, number(hits), number(entry.id)});
  std::map<std::string, std::int64_t> looked;
  for (const std::string& kind : entry.looked) ++looked[kind];
  for (const auto& [kind, times] : looked)
    database_->run(
        "INSERT INTO looked VALUES(?, ?) ON CONFLICT(kind) DO UPDATE SET times = looked.times + "
        "excluded.times",
        {kind, number(times)});
  std::vector<FindingRow> fresh;
  for (const FindingRow& finding : entry.findings) {
    if (add_finding(entry.id, finding)) fresh.push_back(finding);
  }
  return fresh;
}

bool Ledger::add_finding(std::int64_t model, const FindingRow& f) {
  if (knows(f.key)) {
    database_->run("UPDATE finding SET hits = hits + 1 WHERE key = ?", {f.key});
    return false;
  }
  database_->run(
      "INSERT INTO finding SELECT ?, COALESCE(MAX(id) + 1, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1 FROM finding",
      {f.key, number(model), f.backend, f.symptom, flag(f.optimised), flag(f.proven), f.chain, number(f.steps),
       f.versions, f.known, f.folder, f.text});
  return true;
}

}  // namespace finity::fuzz
