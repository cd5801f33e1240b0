// conformance [--filter REGEX] [--update] [--root DIR] [--table FILE]
// Runs the official ONNX tests and compares the grades with the reviewed table.
// Without a filter a difference from the table fails; --update rewrites it.
#include <cstdio>
#include <regex>
#include <string>

#include "conformance/conformance.h"
#include "support/paths.h"

namespace {

struct Options {
  std::string filter;
  bool update = false;
  std::string root = finity::onnx_testdata_folder();
  std::string table = finity::testdata_folder() + "/onnx_conformance.tsv";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--update") options.update = true;
    else if (argument == "--filter" && i + 1 < argc) options.filter = argv[++i];
    else if (argument == "--root" && i + 1 < argc) options.root = argv[++i];
    else if (argument == "--table" && i + 1 < argc) options.table = argv[++i];
  }
  return options;
}

using Outcomes = std::map<std::string, finity::Outcome>;

void print_filtered(const Outcomes& actual) {
  for (const auto& [test, outcome] : actual) {
    std::printf("%-11s %s %s\n", outcome.grade.c_str(), test.c_str(), outcome.reason.c_str());
  }
}

// A better grade than the table's (another libm may round the last bit differently) is not a failure.
bool acceptable(const finity::Outcome& actual, const finity::Outcome& expected) {
  if (actual.grade == "failed") return false;
  if (actual.grade == "exact" && expected.grade == "tolerance") return true;
  return actual.grade == expected.grade;
}

int check_table(const Outcomes& actual, const Outcomes& expected) {
  int failed = 0;
  for (const auto& [test, outcome] : actual) {
    const auto entry = expected.find(test);
    if (entry != expected.end() && acceptable(outcome, entry->second)) continue;
    ++failed;
    std::printf("%s: %s %s, the table says %s\n", test.c_str(), outcome.grade.c_str(), outcome.reason.c_str(),
                entry == expected.end() ? "nothing" : entry->second.grade.c_str());
  }
  for (const auto& [test, outcome] : expected) {
    if (actual.contains(test)) continue;
    ++failed;
    std::printf("%s: is in the table but not among the tests\n", test.c_str());
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Outcomes actual;
  for (const std::string& test : finity::official_tests(options.root)) {
    if (options.filter.empty() || std::regex_search(test, std::regex(options.filter))) {
      actual[test] = finity::run_official_test(options.root, test);
    }
  }
  std::map<std::string, int> grades;
  for (const auto& [test, outcome] : actual) ++grades[outcome.grade];
  const int good = grades["exact"] + grades["tolerance"];
  int failed = 0;
  if (!options.filter.empty()) print_filtered(actual);
  else if (options.update) finity::write_outcomes(options.table, actual);
  else failed = check_table(actual, finity::read_outcomes(options.table));
  std::printf("%zu official tests: %d exact, %d tolerance, %d unsupported, %d failed (%.1f %% good)\n", actual.size(),
              grades["exact"], grades["tolerance"], grades["unsupported"], grades["failed"],
              actual.empty() ? 0.0 : 100.0 * good / static_cast<double>(actual.size()));
  return failed == 0 && !actual.empty() ? 0 : 1;
}
