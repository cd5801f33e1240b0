// Segments of shards, or a campaign on a server, as one folder like that of a campaign on one machine.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "fuzz/folder.h"
#include "fuzz/segment.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;

// A folder's database and findings, made beside the old ones and put in their place at the end.
class NewCampaign {
 public:
  NewCampaign(const std::string& workdir, const std::string& configuration)
      : workdir_(workdir), file_((fs::path(workdir) / kLedgerFile).string() + ".part") {
    drop(file_);
    fs::remove_all(findings());
    fs::create_directories(findings());
    ledger_ = std::make_unique<Ledger>(open_sqlite(file_), file_, configuration, false);
    ledger_->database().begin();
  }

  Ledger& ledger() { return *ledger_; }
  fs::path findings() const { return fs::path(workdir_) / "findings.part"; }

  Merged finish() {
    ledger_->database().commit();
    const Totals totals = ledger_->totals();
    ledger_.reset();
    const fs::path old = fs::path(workdir_) / kLedgerFile;
    drop(old.string());
    fs::remove_all(fs::path(workdir_) / "findings");
    fs::rename(findings(), fs::path(workdir_) / "findings");
    fs::rename(file_, old);
    return {.models = totals.models, .findings = totals.findings};
  }

 private:
  static void drop(const std::string& file) {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file + suffix);
  }
  std::string workdir_, file_;
  std::unique_ptr<Ledger> ledger_;
};

std::vector<Segment> read_segments(const std::string& workdir, std::vector<std::string>& notes) {
  if (!fs::is_directory(workdir)) throw Error(workdir + ": is not a folder");
  std::vector<Segment> segments;
  for (const fs::directory_entry& entry : fs::directory_iterator(workdir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("segment-") || !name.ends_with(".jsonl")) continue;
    Segment segment = read_segment(entry.path().string());
    if (segment.good_bytes > 0) segments.push_back(std::move(segment));
  }
  if (segments.empty()) throw Error(workdir + ": holds no segments of shards");
  std::ranges::sort(segments, {}, [](const Segment& s) { return s.shard.number; });
  const Segment& first = segments.front();
  std::set<int> there;
  for (const Segment& segment : segments) {
    if (segment.configuration != first.configuration || segment.shard.count != first.shard.count)
      throw Error(segment.path + ": is of another campaign than " + first.path);
    there.insert(segment.shard.number);
  }
  for (int number = 1; number <= first.shard.count; ++number) {
    if (!there.contains(number))
      notes.push_back("shard " + std::to_string(number) + "/" + std::to_string(first.shard.count) + " is missing");
  }
  return segments;
}

void copy_table(Database& from, Database& to, const std::string& table, const std::string& order) {
  for (const Row& row : from.query("SELECT * FROM " + table + " ORDER BY " + order)) {
    std::string marks = "?";
    for (std::size_t i = 1; i < row.size(); ++i) marks += ", ?";
    to.run("INSERT INTO " + table + " VALUES(" + marks + ")", row);
  }
}

}  // namespace

Merged merge_segments(const std::string& workdir) {
  std::vector<std::string> notes;
  const std::vector<Segment> segments = read_segments(workdir, notes);
  std::vector<const Entry*> entries;
  for (const Segment& segment : segments) {
    for (const Entry& entry : segment.entries) entries.push_back(&entry);
  }
  std::ranges::sort(entries, {}, &Entry::id);
  NewCampaign made(workdir, segments.front().configuration + " shards " + std::to_string(segments.front().shard.count));
  std::int64_t number = 0;
  for (const Entry* entry : entries) {
    Entry moved = *entry;
    for (FindingRow& finding : moved.findings) {
      if (finding.folder.empty() || made.ledger().knows(finding.key)) continue;
      const fs::path here = fs::path(workdir) / finding.folder;
      if (!fs::is_directory(here)) throw Error(here.string() + ": is missing");
      fs::copy(here, made.findings() / std::to_string(number), fs::copy_options::recursive);
      finding.folder = "findings/" + std::to_string(number++);
    }
    made.ledger().add(moved);
  }
  Merged merged = made.finish();
  merged.notes = std::move(notes);
  return merged;
}

Merged fetch_campaign(const std::string& store, const std::string& workdir) {
  const std::unique_ptr<Database> server = open_postgresql(store);
  server->begin();
  server->run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  const std::vector<Row> run = server->query("SELECT value FROM run WHERE name = 'configuration'");
  if (run.empty()) throw Error("the store holds no campaign");
  std::error_code failed;
  fs::create_directories(workdir, failed);
  if (failed) throw Error(workdir + ": " + failed.message());
  NewCampaign made(workdir, as_text(run[0][0]));
  Database& file = made.ledger().database();
  copy_table(*server, file, "model", "id");
  copy_table(*server, file, "execution", "model, backend");
  copy_table(*server, file, "complaint", "model, backend, tensor");
  copy_table(*server, file, "finding", "id");
  copy_table(*server, file, "looked", "kind");
  copy_table(*server, file, "coverage", "kind, cell");
  for (const Row& row : server->query(
           "SELECT finding.id, file.name, file.content FROM file JOIN finding ON finding.key = file.finding")) {
    const fs::path path = made.findings() / std::to_string(as_int(row[0])) / as_text(row[1]);
    fs::create_directories(path.parent_path());
    write_file_atomically(path.string(), as_bytes(row[2]));
  }
  server->commit();
  return made.finish();
}

}  // namespace finity::fuzz
