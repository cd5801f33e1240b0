// Every case of testdata/ops in the engine on LibTorch, against the reference; and which ops are lowered at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"
#include "torch/coverage.h"
#include "torch/torch_support.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

std::string full_name(const OpDef& op) {
  return op.identity.domain.empty() ? std::string(op.identity.name)
                                    : std::string(op.identity.domain) + "." + std::string(op.identity.name);
}

struct Reviewed {
  std::string how;
  std::string reason;
};

// testdata/torch_ops.tsv: op, how, reason.
std::map<std::string, Reviewed> reviewed_ops() {
  std::map<std::string, Reviewed> result;
  std::istringstream lines(read_text_file(testdata_folder() + "/torch_ops.tsv"));
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
  for (const OpDef* op : all_ops())
    seen.insert(std::string(op->identity.domain) + ":" + std::string(op->identity.name));
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

// What becomes of a case, other than the same result or refusal as in the reference: testdata/torch_cases.tsv says
// which of these are known, and why.
const std::map<std::string, std::string>& known_exceptions() {
  static const auto kCases = [] {
    std::map<std::string, std::string> result;
    std::istringstream lines(read_text_file(testdata_folder() + "/torch_cases.tsv"));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (line.empty() || line.front() == '#') continue;
      EXPECT_NE(second, std::string::npos) << line << ": needs a reason";
      result[line.substr(0, first)] = line.substr(first + 1, second - first - 1);
    }
    return result;
  }();
  return kCases;
}

NamedData inputs_of(const OpCase& test) {
  NamedData inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  }
  return inputs;
}

std::optional<std::vector<Datum>> reference_of(const OpCase& test, const NamedData& inputs) {
  try {
    infer_types(test.graph);
    return run_reference(test.graph, Inputs(inputs.begin(), inputs.end()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "agrees", "refused" (by both), "declined" (LibTorch does not do this), "fails" (only there), "runs" (only there),
// or how the results differ.
std::string what_becomes(const OpCase& test, const NamedData& inputs) {
  const auto expected = reference_of(test, inputs);
  const Answer answer = run_in_torch(test.graph, inputs);
  const bool declined = answer.outcome == Answer::Outcome::unsupported;
  EXPECT_NE(answer.outcome, Answer::Outcome::crashed) << test.name << ": " << answer.text;
  if (!expected) return answer.done() ? "runs" : "refused";
  if (declined) return is_lowered(test.graph) ? "declined" : "not lowered";
  if (!answer.done()) return "fails";
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const std::string why = difference(test.graph, inputs, answer.outputs.at(i).second, (*expected)[i]);
    if (!why.empty()) return "differs: " + why;
  }
  return "agrees";
}

// What the table allows: an entry without a dtype is of float32, and may hold for the others too.
std::set<std::string> allowed(const std::string& dtype, const std::string& key) {
  const auto& known = known_exceptions();
  const auto plain = known.find(key), own = known.find(dtype + ":" + key);
  if (own != known.end()) return {own->second};
  if (plain == known.end()) return {""};
  return dtype == "float32" ? std::set{plain->second} : std::set<std::string>{"", plain->second};
}

void judge_case(const OpCase& test, const NamedData& inputs, const std::string& family, const std::string& dtype,
                Tally& tally) {
  const std::string key = family + "/" + test.name;
  const std::string what = what_becomes(test, inputs);
  if (what == "agrees") ++tally.agreed;
  if (what == "refused") ++tally.refused;
  if (what == "not lowered") ++tally.unsupported;
  const bool usual = what == "agrees" || what == "refused" || what == "not lowered";
  const std::string exception = usual ? "" : what.substr(0, what.find(':'));
  EXPECT_TRUE(allowed(dtype, key).contains(exception)) << dtype << ":" << key << " in testdata/ops: " << what;
}

// All cases as they are, and with another dtype in place of float32: what they expect then means nothing, but the
// reference says what it should be.
Tally judge_all(const std::string& dtype) {
  Tally tally;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    const std::string family = entry.path().stem().string();
    for (const std::string& text : single_cases(with_dtype(read_text_file(entry.path()), dtype))) {
      std::vector<OpCase> cases;
      try {
        cases = parse_cases(text, family);
      } catch (const Error&) {  // a number that the dtype does not have
        EXPECT_NE(dtype, "float32") << text;
      }
      for (const OpCase& test : cases) judge_case(test, inputs_of(test), family, dtype, tally);
    }
  }
  std::printf("%s: %d cases agree, %d are refused by both, %d are not supported\n", dtype.c_str(), tally.agreed,
              tally.refused, tally.unsupported);
  return tally;
}

// The numbers are there so that an engine that supports nothing does not pass.
TEST(TorchOps, CasesGiveWhatTheReferenceGives) { EXPECT_GE(judge_all("float32").agreed, 1290); }
TEST(TorchOps, CasesInFloat16) { EXPECT_GE(judge_all("float16").agreed, 1190); }
TEST(TorchOps, CasesInBfloat16) { EXPECT_GE(judge_all("bfloat16").agreed, 1215); }
TEST(TorchOps, CasesInFloat64) { EXPECT_GE(judge_all("float64").agreed, 1200); }

}  // namespace
}  // namespace finity
