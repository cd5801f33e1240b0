// The known faults of testdata/known_bugs.tsv: every installed version that is said to have one shows it, and those
// that are said to be right are.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "backends/backends.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"
#include "support/difference.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

struct Fault {
  std::string test, backend, first, mended, report, words;
};

std::vector<Fault> faults() {
  std::vector<Fault> result;
  std::istringstream lines(read_text_file(testdata_folder() + "/known_bugs.tsv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    Fault fault;
    for (std::string* cell : {&fault.test, &fault.backend, &fault.first, &fault.mended, &fault.report, &fault.words})
      std::getline(cells, *cell, '\t');
    result.push_back(fault);
  }
  return result;
}

NamedData inputs_of(const OpCase& test) {
  NamedData inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i)
    inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  return inputs;
}

// "right", "wrong" at some level of optimisation, or "declined".
std::string seen(Backend& backend, const OpCase& test, std::string& words) {
  const NamedData inputs = inputs_of(test);
  const std::vector<Datum> expected = run_reference(test.graph, Inputs(inputs.begin(), inputs.end()));
  for (const Optimisation level : {Optimisation::none, Optimisation::all}) {
    const Answer answer = backend.worker().run(
        {.model = write_onnx(test.graph), .level = level, .run = {.inputs = inputs, .outputs = {"y"}}});
    words = answer.text;
    if (answer.outcome == Answer::Outcome::unsupported) return "declined";
    if (!answer.done()) return "wrong";
    words = difference(test.graph, inputs, answer.outputs.at(0).second, expected.at(0));
    if (!words.empty()) return "wrong";
  }
  return "right";
}

bool is_wrong(const Fault& fault, const std::string& version) {
  return !older(version, fault.first) && (fault.mended == "-" || older(version, fault.mended));
}

class KnownBugs : public testing::Test {
 protected:
  KnownBugs() {
    for (OpCase& test : parse_cases(read_text_file(testdata_folder() + "/known_bugs.txt"), "known_bugs.txt"))
      cases_.emplace(test.name, std::move(test));
  }
  std::map<std::string, OpCase> cases_;
};

TEST_F(KnownBugs, CasesAreWhatTheOperatorsMean) {
  for (const auto& [name, test] : cases_) {
    const NamedData inputs = inputs_of(test);
    const std::vector<Datum> results = run_reference(test.graph, Inputs(inputs.begin(), inputs.end()));
    EXPECT_EQ(difference(test.graph, inputs, results.at(0), test.expected.at(0)), "") << name;
  }
}

TEST_F(KnownBugs, AreInTheVersionsThatTheTableNames) {
  int looked_at = 0;
  for (const BackendName& name : installed_backends()) {
    Backend backend = open_backend(name);
    for (const Fault& fault : faults()) {
      ASSERT_TRUE(cases_.contains(fault.test)) << fault.test;
      if (fault.backend != backend.kind().name) continue;
      std::string words;
      const std::string what = seen(backend, cases_.at(fault.test), words);
      const std::string version = backend.worker().hello().version;
      const std::string expected = is_wrong(fault, version) ? "wrong" : "right";
      EXPECT_TRUE(what == expected || (what == "declined" && expected == "right"))
          << backend.name() << ", " << fault.test << ": " << what << ", not " << expected << ": " << words;
      ++looked_at;
    }
  }
  std::printf("%d pairs of a fault and a version\n", looked_at);
}

}  // namespace
}  // namespace finity
