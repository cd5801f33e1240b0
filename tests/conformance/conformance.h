// The official ONNX tests against the reference evaluation, and the reviewed
// table that says what is expected of each.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace finity {

struct Outcome {
  std::string grade;   // exact | tolerance | unsupported | failed
  std::string reason;  // for the last two

  bool operator==(const Outcome&) const = default;
};

// "node/test_abs", ... for every folder of the suites that has a model.
std::vector<std::string> official_tests(const std::string& root);

// Reads, type checks and runs one test; never throws.
Outcome run_official_test(const std::string& root, const std::string& test);

// testdata/onnx_conformance.tsv: test, grade, reason. `accepted` reasons are written by a person.
std::map<std::string, Outcome> read_outcomes(const std::string& path);
void write_outcomes(const std::string& path, const std::map<std::string, Outcome>& outcomes);

}  // namespace finity
