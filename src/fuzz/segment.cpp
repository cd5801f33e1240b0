#include "fuzz/segment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"
#include "fuzz/folder.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string first_line(const JournalOptions& options) {
  const json line = {{"finity_segment", 1},
                     {"configuration", options.configuration},
                     {"shard", options.shard.number},
                     {"shards", options.shard.count}};
  return line.dump() + "\n";
}

void read_first_line(Segment& segment, std::string_view line) {
  const json j = json::parse(line, nullptr, false);
  try {
    if (j.at("finity_segment").get<int>() != 1) throw Error("is of another version of finity");
    segment.configuration = j.at("configuration").get<std::string>();
    segment.shard = {.number = j.at("shard").get<int>(), .count = j.at("shards").get<int>()};
  } catch (const json::exception&) {
    throw Error("is no segment of a campaign");
  }
}

constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause{10};

// A file that is ours alone while it is open, and only grows.
class Appended {
 public:
  explicit Appended(const std::string& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail();
    // What a killed process was about to start holds the file for a moment longer.
    for (int tries = 0; ::flock(file_, LOCK_EX | LOCK_NB) != 0; ++tries) {
      if (tries == kLockTries) {
        ::close(file_);
        throw Error(path + ": another process works on this shard");
      }
      std::this_thread::sleep_for(kLockPause);
    }
  }
  ~Appended() { ::close(file_); }
  Appended(const Appended&) = delete;
  Appended& operator=(const Appended&) = delete;

  void cut(std::int64_t size) {
    if (::ftruncate(file_, size) != 0 || ::lseek(file_, 0, SEEK_END) < 0) fail();
  }
  void append(std::string_view text) {
    while (!text.empty()) {
      const ssize_t done = ::write(file_, text.data(), text.size());
      if (done < 0 && errno != EINTR) fail();
      if (done > 0) text.remove_prefix(static_cast<std::size_t>(done));
    }
  }

 private:
  [[noreturn]] void fail() const { throw Error(path_ + ": " + std::strerror(errno)); }
  std::string path_;
  int file_;
};

std::string made(const JournalOptions& options) {
  std::error_code failed;
  fs::create_directories(options.workdir, failed);
  if (failed) throw Error(options.workdir + ": " + failed.message());
  return (fs::path(options.workdir) / segment_name(options.shard)).string();
}

class SegmentJournal final : public Journal {
 public:
  explicit SegmentJournal(const JournalOptions& options)
      : options_(options), path_(made(options)), file_(path_), next_(options.shard.number - 1) {
    Segment old;
    if (fs::file_size(path_) > 0) old = read_segment(path_);
    if (old.good_bytes == 0) {
      file_.cut(0);
      file_.append(first_line(options));
      return;
    }
    if (!options.resume)
      throw Error(path_ + ": holds a campaign already; go on with --resume, or choose another --workdir");
    if (old.configuration != options.configuration)
      throw Error(path_ + ": holds another campaign (" + old.configuration + ")");
    file_.cut(old.good_bytes);
    for (const Entry& entry : old.entries) take(entry);
  }

  Next next() override {
    if (options_.models > 0 && next_ >= options_.models) return {};
    const std::int64_t id = next_;
    next_ += options_.shard.count;
    return {.turn = Turn::sample, .id = id};
  }
  bool knows(const std::string& key) override { return keys_.contains(key); }
  int looked_into(const std::string& kind) override {
    const auto found = looked_.find(kind);
    return found == looked_.end() ? 0 : found->second;
  }

  std::vector<Placed> add(Entry entry, const std::vector<Finding>& findings) override {
    std::vector<Placed> placed;
    std::set<std::string> now;
    for (std::size_t i = 0; i < findings.size(); ++i) {
      FindingRow row = row_of(findings[i], {});
      if (!knows(row.key) && now.insert(row.key).second) {
        row.folder = "findings-" + std::to_string(options_.shard.number) + "-of-" +
                     std::to_string(options_.shard.count) + "/" + std::to_string(keys_.size() + now.size() - 1);
        write_finding(findings[i], (fs::path(options_.workdir) / row.folder).string());
        placed.push_back({.index = i, .folder = row.folder});
      }
      entry.findings.push_back(std::move(row));
    }
    file_.append(to_line(entry));
    take(entry);
    return placed;
  }

  Totals totals(bool) override {
    Totals totals = tally_.totals;
    totals.findings = static_cast<std::int64_t>(keys_.size());
    return totals;
  }

 private:
  void take(const Entry& entry) {
    tally_.add(entry);
    for (const std::string& kind : entry.looked) ++looked_[kind];
    for (const FindingRow& finding : entry.findings) keys_.insert(finding.key);
    next_ = std::max(next_, entry.id + options_.shard.count);
  }

  JournalOptions options_;
  std::string path_;
  Appended file_;
  std::int64_t next_;
  std::set<std::string, std::less<>> keys_;
  std::map<std::string, int, std::less<>> looked_;
  Tally tally_;
};

}  // namespace

std::string segment_name(const Shard& shard) {
  return "segment-" + std::to_string(shard.number) + "-of-" + std::to_string(shard.count) + ".jsonl";
}

Segment read_segment(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::string_view all(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  Segment segment{.path = path};
  std::int64_t number = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\n', at);
    if (end == std::string_view::npos) break;  // its writer died
    const std::string_view line = all.substr(at, end - at);
    ++number;
    try {
      if (number == 1) read_first_line(segment, line);
      else segment.entries.push_back(entry_of(line));
    } catch (Error& error) {
      error.in(path + ": line " + std::to_string(number));
      throw;
    }
    at = end + 1;
    segment.good_bytes = static_cast<std::int64_t>(at);
  }
  return segment;
}

std::unique_ptr<Journal> open_segment(const JournalOptions& options) {
  return std::make_unique<SegmentJournal>(options);
}

}  // namespace finity::fuzz
