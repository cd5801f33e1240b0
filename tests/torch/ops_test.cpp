// Every case of testdata/ops in the engine on LibTorch, against the reference; and which ops are lowered at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "ops/op.h"
#include "support/support.h"
#include "torch/coverage.h"
#include "torch/torch_support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

std::string full_name(const OpDef& op) {
  return op.domain.empty() ? std::string(op.name) : std::string(op.domain) + "." + std::string(op.name);
}

struct Reviewed {
  std::string how;
  std::string reason;
};

// testdata/torch_ops.tsv: op, how, reason.
std::map<std::string, Reviewed> reviewed_ops() {
  std::map<std::string, Reviewed> result;
  std::istringstream lines(read_text_file(FINITY_TESTDATA "/torch_ops.tsv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    std::string op;
    Reviewed reviewed;
    std::getline(cells, op, '\t');
    std::getline(cells, reviewed.how, '\t');
    std::getline(cells, reviewed.reason);
    result[op] = reviewed;
  }
  return result;
}

TEST(TorchOps, TheReviewedTableIsWhatIsLowered) {
  std::map<std::string, Reviewed> reviewed = reviewed_ops();
  for (const OpDef* op : all_ops()) {
    const auto found = reviewed.find(full_name(*op));
    if (found == reviewed.end()) {
      ADD_FAILURE() << "not in the table: " << full_name(*op) << "\t" << how_lowered(*op);
      continue;
    }
    EXPECT_EQ(found->second.how, how_lowered(*op)) << full_name(*op);
    const bool explained = found->second.how != "no" || !found->second.reason.empty();
    EXPECT_TRUE(explained) << full_name(*op) << " needs a reason";
    reviewed.erase(found);
  }
  for (const auto& [op, entry] : reviewed) ADD_FAILURE() << op << " is not an op of the table";
}

TEST(TorchOps, EveryLoweringIsOfAnOpOfTheTable) {
  std::set<std::string> seen;
  for (const OpDef* op : all_ops()) seen.insert(std::string(op->domain) + ":" + std::string(op->name));
  for (const auto& [domain, name] : lowered_ops()) {
    const std::string key = std::string(domain) + ":" + std::string(name);
    EXPECT_EQ(seen.erase(key), 1U) << key << " is lowered twice, or is no op";
  }
}

// ---- cases --------------------------------------------------------------------------

struct Tally {
  int agreed = 0, refused = 0, unsupported = 0;
};

bool is_lowered(const Graph& graph) {
  return std::ranges::all_of(graph.nodes(),
                             [](const Node& node) { return node.op != nullptr && how_lowered(*node.op) != "no"; });
}

// Cases that LibTorch declines although their ops are lowered, each with a reason: testdata/torch_cases.tsv.
const std::map<std::string, std::string>& declined_cases() {
  static const auto kCases = [] {
    std::map<std::string, std::string> result;
    std::istringstream lines(read_text_file(FINITY_TESTDATA "/torch_cases.tsv"));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t tab = line.find('\t');
      if (!line.empty() && line.front() != '#') result[line.substr(0, tab)] = line.substr(tab + 1);
    }
    return result;
  }();
  return kCases;
}

void compare_case(const OpCase& test, const NamedData& inputs, const std::string& where, Tally& tally) {
  std::vector<Datum> expected;
  try {
    Inputs by_name;
    for (const auto& [name, datum] : inputs) by_name[name] = datum;
    expected = run_reference(test.graph, by_name);
  } catch (const Error&) {
    const Answer answer = run_in_torch(test.graph, inputs);
    EXPECT_TRUE(answer.outcome == Answer::Outcome::refused || answer.outcome == Answer::Outcome::unsupported)
        << where << ": the reference refuses, LibTorch says " << name(answer.outcome) << " " << answer.text;
    ++tally.refused;
    return;
  }
  const Answer answer = run_in_torch(test.graph, inputs);
  if (answer.outcome == Answer::Outcome::unsupported) {
    ++tally.unsupported;
    EXPECT_TRUE(!is_lowered(test.graph) || declined_cases().contains(test.name)) << where << ": " << answer.text;
    return;
  }
  ASSERT_TRUE(answer.done()) << where << ": " << name(answer.outcome) << ": " << answer.text;
  EXPECT_FALSE(declined_cases().contains(test.name)) << where << " is run: take it off testdata/torch_cases.tsv";
  ASSERT_EQ(answer.outputs.size(), expected.size()) << where;
  bool good = true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string why = difference(test.graph, inputs, answer.outputs[i].second, expected[i]);
    EXPECT_EQ(why, "") << where << ": output " << i;
    good = good && why.empty();
  }
  if (good) ++tally.agreed;
}

TEST(TorchOps, CasesGiveWhatTheReferenceGives) {
  Tally tally;
  for (const auto& entry : fs::directory_iterator(FINITY_TESTDATA "/ops")) {
    const std::string file = entry.path().filename().string();
    for (const OpCase& test : parse_cases(read_text_file(entry.path()), file)) {
      NamedData inputs;
      for (std::size_t i = 0; i < test.inputs.size(); ++i) {
        inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
      }
      compare_case(test, inputs, file + ":" + std::to_string(test.line) + " " + test.name, tally);
    }
  }
  RecordProperty("agreed", tally.agreed);
  std::printf("%d cases agree, %d are refused by both, %d are not supported\n", tally.agreed, tally.refused,
              tally.unsupported);
  // So that a worker that supports nothing does not pass.
  EXPECT_GE(tally.agreed, 1) << "raise this when more is lowered";
}

}  // namespace
}  // namespace finity
