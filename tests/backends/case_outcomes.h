// What becomes of the cases of testdata/ops in a backend, and the reviewed tables of it (testdata/backends/NAME.tsv).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "backends/backends.h"

namespace finity {

struct CaseOutcomes {
  // By op: "runs" (every case, with the reference's results), "partly" (some cases are declined). Others are not
  // listed.
  std::map<std::string, std::string> ops = {};
  // Cases with another result, a refusal or a crash where the reference has a result: what, and in what words.
  std::map<std::string, std::string> cases = {};
  std::map<std::string, std::string> words = {};
  int agreed = 0;
};

CaseOutcomes run_cases(Backend& backend);

// A case of which nothing is expected, since it shows what was in memory before.
inline constexpr std::string_view kVaries = "varies";

struct ReviewedTable {
  std::map<std::string, std::string> ops = {}, cases = {}, reasons = {};
};
ReviewedTable read_reviewed(const std::string& path);
// The table anew, with the reasons of entries that are the same.
std::string reviewed_text(const ReviewedTable& before, const CaseOutcomes& now);

}  // namespace finity
