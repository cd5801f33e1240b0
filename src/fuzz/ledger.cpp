#include "fuzz/ledger.h"

#include <algorithm>

#include "base/error.h"

namespace finity::fuzz {

namespace {

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS run(name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS model(id INTEGER PRIMARY KEY, origin TEXT, chain TEXT, opset INTEGER, legal INTEGER);
CREATE TABLE IF NOT EXISTS execution(model INTEGER, backend TEXT, runs INTEGER, steps INTEGER, elements INTEGER,
                                     undecided INTEGER, refused INTEGER);
CREATE TABLE IF NOT EXISTS complaint(model INTEGER, backend TEXT, symptom TEXT, optimised INTEGER, op TEXT, tensor TEXT,
                                     element INTEGER, proven INTEGER, text TEXT);
CREATE TABLE IF NOT EXISTS finding(key TEXT PRIMARY KEY, id INTEGER, model INTEGER, backend TEXT, symptom TEXT,
                                   optimised INTEGER, proven INTEGER, chain TEXT, steps INTEGER, versions TEXT,
                                   known TEXT, folder TEXT, text TEXT, hits INTEGER);
CREATE TABLE IF NOT EXISTS looked(kind TEXT PRIMARY KEY, times INTEGER);
CREATE TABLE IF NOT EXISTS coverage(kind TEXT, cell TEXT, hits INTEGER, first INTEGER, PRIMARY KEY(kind, cell));
)";

Cell number(std::int64_t value) { return value; }

// Sizes in classes: the edges of kernels' blocks tell them apart.
std::string size_class(std::int64_t size) {
  if (size <= 2) return std::to_string(size);
  return size < 8 ? "3-7" : size < 16 ? "8-15" : size == 16 ? "16" : "17+";
}

}  // namespace

Ledger::Ledger(const std::string& path, const std::string& configuration, bool resume) : database_(path) {
  database_.run(kTables);
  const std::vector<Row> before = database_.query("SELECT value FROM run WHERE name = 'configuration'");
  if (before.empty()) {
    database_.run("INSERT INTO run VALUES('configuration', ?)", {configuration});
  } else if (!resume) {
    throw Error(path + ": holds a campaign already; go on with --resume, or choose another --workdir");
  } else if (as_text(before[0][0]) != configuration) {
    throw Error(path + ": holds another campaign (" + as_text(before[0][0]) + ")");
  }
  load();
}

void Ledger::load() {
  models_ = as_int(database_.query("SELECT COALESCE(MAX(id) + 1, 0) FROM model")[0][0]);
  ops_ = static_cast<std::size_t>(as_int(database_.query("SELECT COUNT(*) FROM coverage WHERE kind = 'op'")[0][0]));
  for (const Row& row : database_.query("SELECT key FROM finding ORDER BY id")) keys_.push_back(as_text(row[0]));
  for (const Row& row : database_.query("SELECT kind, times FROM looked"))
    looked_[as_text(row[0])] = static_cast<int>(as_int(row[1]));
  const Row sums =
      database_.query("SELECT SUM(runs), SUM(steps), SUM(elements), SUM(undecided), SUM(refused) FROM execution")[0];
  counts_ = {as_int(sums[0]), as_int(sums[1]), as_int(sums[2]), as_int(sums[3]), as_int(sums[4])};
}

bool Ledger::knows(const std::string& key) const { return std::ranges::find(keys_, key) != keys_.end(); }

int Ledger::looked_into(const std::string& kind) const {
  const auto found = looked_.find(kind);
  return found == looked_.end() ? 0 : found->second;
}

void Ledger::look_into(const std::string& kind) {
  const int times = ++looked_[kind];
  database_.run("INSERT INTO looked VALUES(?, ?) ON CONFLICT(kind) DO UPDATE SET times = excluded.times",
                {kind, number(times)});
}

void Ledger::cover(const std::string& kind, const std::string& cell) {
  database_.run("INSERT INTO coverage VALUES(?, ?, 1, ?) ON CONFLICT(kind, cell) DO UPDATE SET hits = hits + 1",
                {kind, cell, number(models_)});
}

void Ledger::add_model(std::int64_t id, const Sample& sample, bool legal) {
  database_.run("INSERT INTO model VALUES(?, ?, ?, ?, ?)",
                {number(id), sample.origin, op_chain(sample), number(sample.opset), number(legal ? 1 : 0)});
  models_ = id;
  std::map<std::string, std::string, std::less<>> makers;
  for (const Step& step : sample.steps) {
    cover("op", step.op);
    cover("opset", step.op + " " + std::to_string(sample.opset));
    for (const auto& [name, value] : step.attrs) cover("attribute", step.op + "." + name);
    for (const auto& [name, value] : step.attrs) {
      for (const auto& [other, more] : step.attrs) {
        if (name < other) cover("attribute pair", step.op + "." + name + "." + other);
      }
    }
    for (const std::string& input : step.inputs) {
      if (const auto maker = makers.find(input); maker != makers.end()) cover("edge", maker->second + " " + step.op);
      if (const Tensor* tensor = given(sample, input)) {
        std::string form =
            step.op + " " + std::string(finity::name(tensor->dtype())) + " rank " + std::to_string(tensor->rank());
        if (tensor->rank() > 0) form += " " + size_class(tensor->dims().back());
        cover("form", form);
      }
    }
    for (const std::string& output : step.outputs) makers[output] = step.op;
  }
  ops_ = static_cast<std::size_t>(as_int(database_.query("SELECT COUNT(*) FROM coverage WHERE kind = 'op'")[0][0]));
  models_ = id + 1;
}

void Ledger::add_outcome(std::int64_t model, const BackendOutcome& outcome) {
  const Counts& c = outcome.counts;
  database_.run("INSERT INTO execution VALUES(?, ?, ?, ?, ?, ?, ?)",
                {number(model), outcome.backend.text(), number(c.runs), number(c.steps), number(c.elements),
                 number(c.undecided), number(c.refused)});
  for (const Complaint& complaint : outcome.complaints) {
    database_.run("INSERT INTO complaint VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                  {number(model), outcome.backend.text(), std::string(name(complaint.symptom)),
                   number(complaint.level == Optimisation::none ? 0 : 1), complaint.op, complaint.tensor,
                   number(complaint.element), number(complaint.proven ? 1 : 0), complaint.text});
  }
  counts_.runs += c.runs;
  counts_.steps += c.steps;
  counts_.elements += c.elements;
  counts_.undecided += c.undecided;
  counts_.refused += c.refused;
}

bool Ledger::add_finding(std::int64_t model, const Finding& finding, const std::string& folder) {
  if (knows(finding.key)) {
    database_.run("UPDATE finding SET hits = hits + 1 WHERE key = ?", {finding.key});
    return false;
  }
  const Complaint& c = finding.complaint;
  database_.run("INSERT INTO finding VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
                {finding.key, number(findings()), number(model), finding.backend.text(), std::string(name(c.symptom)),
                 number(c.level == Optimisation::none ? 0 : 1), number(c.proven ? 1 : 0), op_chain(finding.sample),
                 number(static_cast<std::int64_t>(finding.sample.steps.size())), strip_text(finding.versions),
                 finding.known, folder, c.text});
  keys_.push_back(finding.key);
  return true;
}

}  // namespace finity::fuzz
