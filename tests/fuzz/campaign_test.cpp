// Campaigns over a library whose faults are known.
#include "fuzz/campaign.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "formats/text/text.h"
#include "fuzz/folder.h"
#include "fuzz/reproducer.h"
#include "store/database.h"

namespace finity::fuzz {
namespace {

namespace fs = std::filesystem;

// As if it were ONNX Runtime: optimised and not.
Backend faulty(const std::string& fault) {
  const BackendName name = parse_backend("ort@1.0.0");
  return Backend({.family = "ort", .version = "1.0.0"},
                 finity::Backend(name, {.command = {FINITY_FAULTY_WORKER, fault}}));
}

struct CampaignTest : testing::Test {
  fs::path folder = fs::path(testing::TempDir()) / ("finity_fuzz_" + std::to_string(::getpid()));
  void SetUp() override { fs::remove_all(folder); }
  void TearDown() override { fs::remove_all(folder); }

  CampaignOptions options(const std::string& fault, const std::string& name, std::int64_t models) const {
    CampaignOptions result;
    result.version = "test";
    result.models = models;
    result.workdir = (folder / name).string();
    result.backends = {{.family = "ort", .version = "1.0.0"}};
    result.open = [fault](const BackendSpec&) { return faulty(fault); };
    result.strips = false;
    return result;
  }

  // Everything but times, of which there are none.
  std::vector<std::string> contents(const std::string& name) const {
    Database database((folder / name / "campaign.sqlite").string());
    std::vector<std::string> lines;
    for (const char* table : {"run", "model", "execution", "complaint", "finding", "looked", "coverage"}) {
      for (const Row& row : database.query("SELECT * FROM " + std::string(table))) {
        std::string line = table;
        for (const Cell& cell : row)
          line += "|" + (std::holds_alternative<std::int64_t>(cell) ? std::to_string(as_int(cell)) : as_text(cell));
        lines.push_back(std::move(line));
      }
    }
    return lines;
  }
};

struct Fault {
  const char* name;
  const char* op;  // in every finding
  Symptom symptom;
  bool optimised;
  std::vector<std::string> ops;  // what samples are made of, so that few are enough
};

TEST_F(CampaignTest, FindsEachFaultAndNothingElseAndMakesItSmall) {
  const std::vector<Fault> faults = {{"pool", "MaxPool", Symptom::wrong_value, true, {}},
                                     {"relu", "Relu", Symptom::wrong_value, false, {"Relu"}},
                                     {"shape", "Flatten", Symptom::wrong_form, false, {"Flatten"}},
                                     {"crash", "Selu", Symptom::crash, false, {"Selu"}},
                                     {"unstable", "Tanh", Symptom::unstable, false, {"Tanh"}},
                                     {"refuses", "Clip", Symptom::exception, true, {"Clip"}}};
  for (const Fault& fault : faults) {
    CampaignOptions campaign = options(fault.name, fault.name, fault.ops.empty() ? 250 : 20);
    campaign.generate.ops = fault.ops;
    std::vector<std::size_t> sizes;
    CampaignHooks hooks;
    hooks.found = [&](const Finding& finding, const std::string&) {
      EXPECT_EQ(finding.complaint.symptom, fault.symptom) << fault.name << ": " << finding.key;
      EXPECT_EQ(finding.complaint.level != Optimisation::none, fault.optimised) << finding.key;
      EXPECT_NE(finding.key.find(fault.op), std::string::npos) << finding.key;
      sizes.push_back(finding.sample.steps.size());
    };
    run_campaign(campaign, hooks);
    ASSERT_FALSE(sizes.empty()) << fault.name;
    EXPECT_LE(*std::ranges::min_element(sizes), fault.optimised && fault.ops.empty() ? 2U : 1U) << fault.name;
  }
}

TEST_F(CampaignTest, FindsNothingInALibraryThatIsRight) {
  CampaignHooks hooks;
  hooks.found = [](const Finding& finding, const std::string&) {
    ADD_FAILURE() << finding.key << ": " << finding.complaint.text << "\n" << print_graph(graph(finding.sample));
    for (const auto& [name, tensor] : finding.sample.inputs) ADD_FAILURE() << name << " = " << print_tensor(tensor);
  };
  const Progress progress = run_campaign(options("none", "none", 400), hooks);
  EXPECT_EQ(progress.findings, 0);
  EXPECT_GT(progress.counts.steps, 400);
  EXPECT_LT(progress.counts.undecided * 5, progress.counts.elements);
  EXPECT_GT(progress.ops, 60U);
}

TEST_F(CampaignTest, IsAFunctionOfTheSeedAndGoesOnWhereItWas) {
  CampaignOptions whole = options("relu", "whole", 60);
  run_campaign(whole, {});
  CampaignOptions again = options("relu", "again", 60);
  again.jobs = 3;
  run_campaign(again, {});
  EXPECT_EQ(contents("whole"), contents("again"));
  CampaignOptions part = options("relu", "part", 25);
  run_campaign(part, {});
  EXPECT_THROW(run_campaign(part, {}), Error);  // not asked to go on
  part.resume = true;
  part.models = 60;
  run_campaign(part, {});
  EXPECT_EQ(contents("whole"), contents("part"));
  part.seed = 2;
  EXPECT_THROW(run_campaign(part, {}), Error);  // another campaign
}

TEST_F(CampaignTest, AFindingReadsBackAsItWas) {
  CampaignOptions campaign = options("relu", "relu", 30);
  campaign.generate.ops = {"Relu"};
  std::string where;
  Sample sample;
  CampaignHooks hooks;
  hooks.found = [&](const Finding& finding, const std::string& at) {
    where = (folder / "relu" / at).string();
    sample = finding.sample;
  };
  run_campaign(campaign, hooks);
  ASSERT_TRUE(is_finding(where));
  const StoredFinding stored = read_finding(where);
  EXPECT_EQ(op_chain(stored.sample), op_chain(sample));
  ASSERT_EQ(stored.sample.inputs.size(), sample.inputs.size());
  for (const auto& [name, tensor] : sample.inputs)
    EXPECT_TRUE(identical(stored.sample.inputs.at(name), tensor)) << name;
  Backend right = faulty("none"), wrong = faulty("relu");
  Counts counts;
  EXPECT_TRUE(judge_any(right, stored.sample, true, counts).empty());
  EXPECT_FALSE(judge_any(wrong, stored.sample, true, counts).empty());
  for (const char* file : {"model.onnx", "README.md", "reproduce.js", "fuzz.json"})
    EXPECT_TRUE(fs::is_regular_file(fs::path(where) / file)) << file;
}

}  // namespace
}  // namespace finity::fuzz
