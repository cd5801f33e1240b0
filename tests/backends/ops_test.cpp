// Every case of testdata/ops in every backend that is installed, against the reference and the reviewed tables.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "backends/backends.h"
#include "backends/case_outcomes.h"
#include "base/atomic_file.h"
#include "support/paths.h"

namespace finity {
namespace {

struct Expected {
  const char* backend;
  const char* table;
  int agreed;  // so that an engine that declines everything does not pass
};

// A version is looked at for which there is a table.
class BackendOps : public testing::TestWithParam<Expected> {};

void compare_tables(const std::map<std::string, std::string>& reviewed, const std::map<std::string, std::string>& now,
                    const std::map<std::string, std::string>& words) {
  for (const auto& [name, outcome] : now) {
    const auto found = reviewed.find(name);
    const auto said = words.find(name);
    if (found != reviewed.end() && found->second == kVaries) continue;
    EXPECT_TRUE(found != reviewed.end() && found->second == outcome)
        << name << ": " << outcome << (said == words.end() ? "" : ": " + said->second);
  }
  for (const auto& [name, outcome] : reviewed)
    EXPECT_TRUE(outcome == kVaries || now.contains(name)) << name << " is no longer " << outcome;
}

TEST_P(BackendOps, AreAsReviewed) {
  const BackendName name = parse_backend(GetParam().backend);
  std::optional<Backend> backend;
  try {
    backend.emplace(open_backend(name));
  } catch (const NotInstalled& missing) {
    GTEST_SKIP() << missing.what();
  }
  const std::string path = testdata_folder() + "/backends/" + std::string(GetParam().table);
  const ReviewedTable reviewed = read_reviewed(path);
  const CaseOutcomes now = run_cases(*backend);
  std::printf("%s: %d cases agree\n", backend->name().c_str(), now.agreed);
  if (std::getenv("FINITY_UPDATE") != nullptr) {
    write_file_atomically(path, reviewed_text(reviewed, now));
    for (const auto& [test, words] : now.words) std::printf("%s\t%s\n", test.c_str(), words.c_str());
    return;
  }
  EXPECT_GE(now.agreed, GetParam().agreed);
  compare_tables(reviewed.ops, now.ops, {});
  compare_tables(reviewed.cases, now.cases, now.words);
  for (const auto& [test, outcome] : reviewed.cases)
    EXPECT_TRUE(reviewed.reasons.contains(test + "\t" + outcome)) << test << " needs a reason";
}

INSTANTIATE_TEST_SUITE_P(All, BackendOps,
                         testing::Values(Expected{"onednn", "onednn.tsv", 260}, Expected{"opencv", "opencv.tsv", 95},
                                         Expected{"tfjs-cpu@4.22.0", "tfjs-cpu-4.22.0.tsv", 225},
                                         Expected{"tfjs-wasm@4.22.0", "tfjs-wasm-4.22.0.tsv", 205}),
                         [](const auto& info) {
                           std::string name = info.param.backend;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace finity
