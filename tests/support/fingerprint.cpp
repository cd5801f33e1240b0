#include "support/fingerprint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/atomic_file.h"
#include "support/recorded.h"
#include "support/support.h"

namespace finity {
namespace {

struct Fingerprint {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  std::uint64_t lines = 0;

  void add(std::string_view line) {
    for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    hash = (hash ^ '\n') * 0x100000001b3U;
    ++lines;
  }
  std::string shown() const {
    std::ostringstream out;
    out << lines << " lines " << std::hex << hash;
    return out.str();
  }
};

// By the full name of a test. Other programs have their own tests in the same file.
std::map<std::string, std::string> read_fingerprints(const std::string& path) {
  std::map<std::string, std::string> result;
  std::istringstream in(std::filesystem::exists(path) ? read_text_file(path) : "");
  for (std::string line; std::getline(in, line);) {
    const std::size_t end = line.find(' ');
    if (end != std::string::npos) result[line.substr(0, end)] = line.substr(end + 1);
  }
  return result;
}

class Keeper final : public testing::EmptyTestEventListener {
 public:
  void add(std::string_view line) {
    now_.add(line);
    if (folder_ != nullptr) (lines_ += line) += '\n';
  }

  void OnTestStart(const testing::TestInfo& /*info*/) override {
    now_ = {};
    lines_.clear();
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    const bool usual = std::getenv("FINITY_TEST_SEED") == nullptr && !info.result()->Failed();
    if (now_.lines == 0 || !usual) return;
    const std::string name = std::string(info.test_suite_name()) + "." + info.name();
    if (folder_ != nullptr) write_lines(name);
    if (std::getenv("FINITY_UPDATE") != nullptr) return update(name);
    const auto known = recorded_.find(name);
    EXPECT_EQ(now_.shown(), known == recorded_.end() ? "" : known->second)
        << name
        << " computes something else than recorded; if this is meant: FINITY_UPDATE=1 (tests/support/fingerprint.h)";
  }

 private:
  void update(const std::string& name) {
    recorded_ = read_fingerprints(path_);
    recorded_[name] = now_.shown();
    std::string text;
    for (const auto& [title, value] : recorded_) (text += title) += " " + value + "\n";
    write_file_atomically(path_, text);
  }
  void write_lines(std::string name) const {
    for (char& c : name) c = c == '/' ? '_' : c;
    std::filesystem::create_directories(folder_);
    write_file_atomically(std::string(folder_) + "/" + name + ".txt", lines_);
  }

  const std::string path_ = std::string(FINITY_TESTDATA) + "/ranges/fingerprints.txt";
  const char* const folder_ = std::getenv("FINITY_COMPUTED");
  std::map<std::string, std::string> recorded_ = read_fingerprints(path_);
  Fingerprint now_ = {};
  std::string lines_ = {};
};

Keeper* appended() {
  auto* keeper = new Keeper;  // owned by the list
  testing::UnitTest::GetInstance()->listeners().Append(keeper);
  return keeper;
}

Keeper* const keeper = appended();

}  // namespace

void computed(std::string_view line) { keeper->add(line); }

std::string in_a_line(std::span<const AbsTensor> outputs, std::span<const Site> sites) {
  std::string text;
  for (const AbsTensor& output : outputs) (text += shown_whole(output)) += "; ";
  for (const Site& site : sites) {
    text += std::string(site.rule) + " of " + std::to_string(site.operand);
    text +=
        (site.possible ? " possible " : " proved ") + std::string(site.certain ? "certain " : "") + shown(site.seen);
    text += "; ";
  }
  return text;
}

}  // namespace finity
