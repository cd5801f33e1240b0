#include "support/fingerprint.h"

#include <gtest/gtest.h>

#include <bit>
#include <cerrno>  // program_invocation_short_name
#include <cmath>
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

// Numbers of float32 and narrower formats in full; of others six digits: libraries differ in the last ones.
std::uint64_t digits_of(double x) {
  const bool narrow = std::isfinite(x) && static_cast<double>(static_cast<float>(x)) == x;
  int exponent = 0;
  const double fraction = std::isfinite(x) ? std::frexp(x, &exponent) : x;
  return std::bit_cast<std::uint64_t>(
      narrow || !std::isfinite(x) ? x : std::ldexp(std::round(fraction * 0x1p20), exponent));
}

struct Fingerprint {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  std::uint64_t lines = 0;

  void mix(std::uint64_t value) { hash = (hash ^ value ^ (value >> 29U)) * 0x100000001b3U; }
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
  }
  void add(const Range& range) {
    mix(digits_of(range.lo));
    mix(digits_of(range.hi));
    mix((range.nonzero ? 1U : 0U) | (range.integer ? 2U : 0U) | (range.pinf ? 4U : 0U) | (range.ninf ? 8U : 0U) |
        (range.nan ? 16U : 0U));
  }
  void add(const Fact& fact) {
    mix(static_cast<std::uint64_t>(fact.kind));
    mix(static_cast<std::uint64_t>(fact.source.index));
    mix(fact.axes);
    mix(fact.aligned ? 1 : 0);
    mix(digits_of(fact.slack));
    mix(digits_of(fact.lost));
    mix(static_cast<std::uint64_t>(fact.total));
    add(fact.range);
  }
  void add(const AbsTensor& x) {
    for (const std::int64_t size : x.sizes) mix(static_cast<std::uint64_t>(size));
    for (const Cuts& cuts : x.cuts) {
      for (const std::int64_t cut : cuts) mix(static_cast<std::uint64_t>(cut));
      mix(cuts.size());
    }
    for (const Range& cell : x.cells) add(cell);
    for (const Fact& fact : x.facts) add(fact);
    for (const Form& form : x.forms) {
      mix(form.valid ? form.terms.size() : ~std::uint64_t{0});
      mix(digits_of(form.error));
    }
    mix(x.may_be_empty ? 1 : 0);
  }
  void add(const Site& site) {
    add(site.rule);
    mix(static_cast<std::uint64_t>(site.operand) | (site.possible ? 1U << 16U : 0U) | (site.certain ? 1U << 17U : 0U));
    add(site.seen);
  }
  std::string shown() const {
    std::ostringstream out;
    out << lines << " lines " << std::hex << hash;
    return out.str();
  }
};

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

// By the full name of a test.
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
    ++now_.lines;
    if (folder_ != nullptr) (lines_ += line) += '\n';
  }
  void add(std::string_view title, std::span<const AbsTensor> outputs, std::span<const Site> sites) {
    now_.add(title);
    for (const AbsTensor& output : outputs) now_.add(output);
    for (const Site& site : sites) now_.add(site);
    ++now_.lines;
    if (folder_ != nullptr) (lines_ += title) += " -> " + in_a_line(outputs, sites) + '\n';
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

  const std::string path_ =
      std::string(FINITY_TESTDATA) + "/ranges/fingerprints_" + program_invocation_short_name + ".txt";
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

void computed(std::string_view title, std::span<const AbsTensor> outputs, std::span<const Site> sites) {
  keeper->add(title, outputs, sites);
}

}  // namespace finity
