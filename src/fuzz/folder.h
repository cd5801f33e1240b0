// A finding as a folder that its library's maintainers can use without finity: the model, its inputs as ONNX's tests
// have them, what was expected and seen, a program that shows it, and a page that explains it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuzz/finding.h"

namespace finity::fuzz {

inline constexpr std::string_view kFindingFile = "fuzz.json";

// Names and contents of the files of a finding's folder.
std::vector<std::pair<std::string, std::string>> finding_files(const Finding& finding);
// Appears whole or not at all.
void write_finding(const Finding& finding, const std::string& folder);

struct StoredFinding {
  BackendSpec backend = {};
  std::string symptom = {};
  bool optimised = false;
  bool proven = true;
  std::string op = {};
  std::string text = {};
  Evidence evidence = {};
};

bool is_finding(const std::string& folder);
// Throws Error naming the file that is missing or wrong.
StoredFinding read_finding(const std::string& folder);

// The fault of a library in one sentence, as its maintainer would say it.
std::string title(const Finding& finding);

}  // namespace finity::fuzz
