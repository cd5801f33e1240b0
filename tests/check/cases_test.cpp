// testdata/check/*.txt: small graphs with what the checker must prove, must not prove, and infer.
// Every case is also run: inside the contract no value may leave its range, and a witness must fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/atomic_file.h"
#include "check/analyze.h"
#include "check/verify.h"
#include "ops/table/op.h"
#include "support/check_case.h"
#include "support/check_model.h"
#include "support/paths.h"
#include "support/support.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;
using Kind = CheckExpectation::Kind;

constexpr int kSamples = 40;

std::string all_findings(const Graph& graph, const Analysis& analysis) {
  std::string text = "findings:\n";
  for (const Finding& finding : analysis.findings) text += describe_finding(graph, finding);
  text += "ranges:\n";
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (analysis.reached[i]) text += "  " + graph.values()[i].name + " " + to_string(analysis.ranges[i].hull()) + "\n";
  }
  for (const Note& note : analysis.notes) text += "note: " + note.where + ": " + note.text + "\n";
  return text;
}

class Judge {
 public:
  Judge(const CheckCase& test, const Graph& graph, const Analysis& analysis)
      : test_(test), graph_(graph), analysis_(analysis) {}

  void verdicts() {
    for (const CheckExpectation& expected : test_.expectations) {
      if (expected.kind < Kind::range) verdict(expected);
    }
    for (const Finding& finding : analysis_.findings) {
      // What only goes on from an earlier overflow is shown with that one.
      if (finding.verdict == Verdict::proved || finding.root >= 0 || mentioned(finding)) continue;
      ADD_FAILURE() << at(test_.line) << "an alarm nobody expects:\n" << describe_finding(graph_, finding) << context();
    }
  }

  void ranges() {
    for (const CheckExpectation& expected : test_.expectations) {
      if (expected.kind >= Kind::range) range(expected);
    }
  }

 private:
  std::string at(int line) const { return test_.file + ":" + std::to_string(line) + ": "; }
  std::string context() const { return "in '" + test_.title + "'\n" + all_findings(graph_, analysis_); }

  bool concerns(const Finding& finding, const std::string& name) const {
    if (!finding.node.valid()) return graph_.value(finding.value).name == name;
    return std::ranges::any_of(graph_.node(finding.node).outputs,
                               [&](ValueId id) { return id.valid() && graph_.value(id).name == name; });
  }

  // One cause may violate several rules at a node, so an expected alarm covers the node, except what is `proved` there.
  bool mentioned(const Finding& finding) const {
    return std::ranges::any_of(test_.expectations, [&](const CheckExpectation& expected) {
      return expected.kind < Kind::range && expected.kind != Kind::proved && concerns(finding, expected.name);
    });
  }

  bool node_exists(const std::string& name) const {
    return std::ranges::any_of(graph_.values(), [&](const Value& value) { return value.name == name; });
  }

  void verdict(const CheckExpectation& expected) {
    ASSERT_TRUE(node_exists(expected.name)) << at(expected.line) << "nothing is called " << expected.name;
    std::vector<const Finding*> sites;
    for (const Finding& finding : analysis_.findings) {
      const bool same_rule = expected.rule.empty() || finding.rule == expected.rule;
      if (same_rule && concerns(finding, expected.name)) sites.push_back(&finding);
    }
    const auto any = [&](Verdict wanted) {
      return std::ranges::any_of(sites, [&](const Finding* f) { return f->verdict == wanted; });
    };
    switch (expected.kind) {
      case Kind::proved: return proved(expected, sites);
      case Kind::possible:
        EXPECT_TRUE(any(Verdict::possible))
            << at(expected.line) << "must warn, but does not: " << expected.name << " " << expected.rule << "\n"
            << context();
        return seen(expected, sites);
      case Kind::unknown:
        EXPECT_TRUE(any(Verdict::unknown)) << at(expected.line) << "expected unknown: " << expected.name << "\n"
                                           << context();
        return;
      default:
        EXPECT_TRUE(any(Verdict::possible))
            << at(expected.line) << "no longer a false alarm, say `proved`: " << expected.name << "\n"
            << context();
    }
  }

  // A rule about the result has a site only where something may go wrong; one about an operand always has.
  void proved(const CheckExpectation& expected, const std::vector<const Finding*>& sites) const {
    for (const Finding* site : sites) {
      EXPECT_EQ(site->verdict, Verdict::proved)
          << at(expected.line) << "not proved: " << expected.name << " " << expected.rule << "\n"
          << context();
    }
    for (const Node& node : graph_.nodes()) {
      const bool produces = std::ranges::any_of(
          node.outputs, [&](ValueId id) { return id.valid() && graph_.value(id).name == expected.name; });
      if (!produces || node.op == nullptr) continue;
      const bool about_operand = std::ranges::any_of(node.op->analysis.hazards, [&](const Hazard& hazard) {
        return hazard.quantity == nullptr && hazard.rule == expected.rule;
      });
      if (about_operand) {
        EXPECT_FALSE(sites.empty()) << at(expected.line) << "no site at all: " << expected.name << " " << expected.rule
                                    << "\n"
                                    << context();
      }
    }
  }

  void seen(const CheckExpectation& expected, const std::vector<const Finding*>& sites) const {
    if (expected.range.empty() || sites.empty()) return;
    EXPECT_EQ(to_string(sites.front()->seen), expected.range) << at(expected.line) << "what reaches " << expected.name;
  }

  void range(const CheckExpectation& expected) {
    bool found = false;
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      if (graph_.values()[i].name != expected.name) continue;
      found = true;
      compare_range(expected, analysis_.ranges[i].hull());
    }
    EXPECT_TRUE(found) << at(expected.line) << "nothing is called " << expected.name;
  }

  void compare_range(const CheckExpectation& expected, const Range& actual) {
    const std::string text = to_string(actual);
    if (expected.kind == Kind::range && text != expected.range) {
      if (std::getenv("FINITY_UPDATE") != nullptr && !test_.rows) return rewrite(expected, text);
      EXPECT_EQ(text, expected.range) << at(expected.line) << "range of " << expected.name << "\n" << context();
    }
    const Range wanted = parse_range(expected.range);
    Range plain = actual;
    plain.integer = plain.nonzero = false;
    if (expected.kind == Kind::within) {
      EXPECT_TRUE(is_subset(plain, wanted)) << at(expected.line) << expected.name << " is " << text << "\n"
                                            << context();
    } else if (expected.kind == Kind::covers) {
      EXPECT_TRUE(is_subset(wanted, plain)) << at(expected.line) << expected.name << " is " << text << "\n"
                                            << context();
    }
  }

  void rewrite(const CheckExpectation& expected, const std::string& text) const {
    const std::string path = testdata_folder() + "/check/" + test_.file;
    std::istringstream in(read_text_file(path));
    std::string result;
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (number == expected.line) line.replace(line.find(expected.range), expected.range.size(), text);
      result += line + "\n";
    }
    write_file_atomically(path, result);
  }

  const CheckCase& test_;
  const Graph& graph_;
  const Analysis& analysis_;
};

void check_witnesses(const CheckCase& test, const Graph& graph, bool flush) {
  for (const Witness& witness : test.witnesses) {
    EXPECT_EQ(why_no_failure(graph, witness.inputs, witness.node, flush), "")
        << test.file << ":" << witness.line << ": the witness does not fail";
  }
}

class CheckCases : public testing::TestWithParam<CheckCase> {};

TEST_P(CheckCases, Holds) {
  const CheckCase& test = GetParam();
  const std::string place = test.file + ":" + std::to_string(test.line) + ": ";
  ASSERT_EQ(test.error, "");
  ASSERT_FALSE(test.expectations.empty()) << place << "the case expects nothing";
  const CheckedModel result = check(test);
  for (const Note& note : result.premises.notes) ADD_FAILURE() << place << note.where << ": " << note.text;
  for (const std::string& words : test.assumptions) {
    const auto has = [&](const std::string& text) { return text.find(words) != std::string::npos; };
    EXPECT_TRUE(std::ranges::any_of(result.premises.assumptions, has)) << place << "nobody assumes '" << words << "'";
  }
  Judge judge(test, result.graph, result.analysis);
  judge.verdicts();
  judge.ranges();
  check_witnesses(test, result.graph, result.analysis.flushes_subnormals);
  try {
    verify(result.graph, result.types, result.premises, result.analysis, {.runs = kSamples});
  } catch (const Error& error) {
    ADD_FAILURE() << place << error.what();
  }
}

std::vector<CheckCase> all_cases() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/check")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<CheckCase> cases;
  for (const std::string& path : paths) {
    for (CheckCase& one : read_check_cases(path)) {
      one.test_name = fs::path(path).stem().string() + "_" + one.test_name;
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Text, CheckCases, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.test_name; });

}  // namespace
}  // namespace finity
