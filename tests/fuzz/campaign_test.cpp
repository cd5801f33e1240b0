// Campaigns over a library whose faults are known.
#include "fuzz/campaign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "formats/text/text.h"
#include "fuzz/campaign_support.h"
#include "fuzz/folder.h"
#include "fuzz/laws.h"
#include "fuzz/reproducer.h"
#include "tensor/convert.h"

namespace finity::fuzz {
namespace {

namespace fs = std::filesystem;

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

// NNSmith's comparison sees what is far off, not which step it was.
TEST_F(CampaignTest, ComparesByDistanceWhenAsked) {
  for (const char* fault : {"relu", "none"}) {
    CampaignOptions campaign = options(fault, std::string("distance_") + fault, 60);
    campaign.generate.ops = {"Relu"};
    campaign.generate.invalid = false;
    campaign.by_distance = true;
    int found = 0;
    CampaignHooks hooks;
    hooks.found = [&](const Finding& finding, const std::string&) {
      ++found;
      EXPECT_TRUE(finding.complaint.by_distance);
      EXPECT_NE(finding.key.find("Relu"), std::string::npos) << finding.key;
    };
    EXPECT_GT(run_campaign(campaign, hooks).counts.elements, 0);
    EXPECT_EQ(found > 0, std::string_view(fault) == "relu") << fault;
  }
}

// Samples hold NaN and infinities now and then; the smallest one still does.
TEST_F(CampaignTest, FindsWhatTakesNanForANumber) {
  CampaignOptions campaign = options("nan", "nan", 200);
  campaign.generate.ops = {"Erf"};
  int found = 0;
  CampaignHooks hooks;
  hooks.found = [&](const Finding& finding, const std::string&) {
    ++found;
    EXPECT_NE(finding.key.find("for no number"), std::string::npos) << finding.key;
    EXPECT_EQ(op_chain(finding.sample), "Erf");
    EXPECT_EQ(finding.complaint.observed, 1);
    EXPECT_TRUE(finding.complaint.expected.nan && !finding.complaint.expected.has_finite());
  };
  run_campaign(campaign, hooks);
  EXPECT_GT(found, 0);
}

TEST_F(CampaignTest, OneFaultOfAnOpDoesNotHideAnother) {
  CampaignOptions campaign = options("two", "two", 60);
  campaign.generate.ops = {"Softmax"};
  bool finite = false, infinite = false;
  CampaignHooks hooks;
  hooks.found = [&](const Finding& finding, const std::string&) {
    if (finding.complaint.symptom != Symptom::wrong_value) return;
    (std::isinf(finding.complaint.observed) ? infinite : finite) = true;
  };
  run_campaign(campaign, hooks);
  EXPECT_TRUE(finite);
  EXPECT_TRUE(infinite);
}

// Refusals count apart by their words, and a reduction keeps to them.
TEST_F(CampaignTest, OneRefusalDoesNotHideAnother) {
  CampaignOptions campaign = options("words", "words", 150);
  campaign.generate.ops = {"Clip"};
  std::set<std::string> texts;
  CampaignHooks hooks;
  hooks.found = [&](const Finding& finding, const std::string&) {
    EXPECT_EQ(finding.complaint.symptom, Symptom::exception) << finding.key;
    const auto clip = std::ranges::find(finding.sample.steps, "Clip", &Step::op);
    ASSERT_NE(clip, finding.sample.steps.end()) << finding.key;
    EXPECT_EQ(finding.complaint.text.starts_with("Clip 17"), clip->inputs.size() == 2) << finding.key;
    // Numbers are no part of the key: shapes and places differ from sample to sample.
    EXPECT_EQ(finding.key.find("17"), std::string::npos) << finding.key;
    texts.insert(finding.complaint.text);
  };
  run_campaign(campaign, hooks);
  EXPECT_EQ(texts.size(), 2U);
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
  EXPECT_EQ(op_chain(stored.evidence.sample), op_chain(sample));
  ASSERT_EQ(stored.evidence.sample.inputs.size(), sample.inputs.size());
  for (const auto& [name, tensor] : sample.inputs)
    EXPECT_TRUE(identical(stored.evidence.sample.inputs.at(name), tensor)) << name;
  Backend right = faulty("none"), wrong = faulty("relu");
  Counts counts;
  EXPECT_TRUE(judge_any(right, stored.evidence.sample, true, counts).empty());
  EXPECT_FALSE(judge_any(wrong, stored.evidence.sample, true, counts).empty());
  for (const char* file : {"model.onnx", "README.md", "reproduce.js", "fuzz.json"})
    EXPECT_TRUE(fs::is_regular_file(fs::path(where) / file)) << file;
}

TEST_F(CampaignTest, ABrokenLawIsReducedWithTheModelItWasMadeOf) {
  Backend backend = faulty("identity");
  Rng rng(3);
  Grower grower(rng, 17, "test");
  std::string x = grower.add_input(from_elements<double>(DType::float32, {3}, std::vector<double>{1, 2, -3}));
  for (const char* op : {"Abs", "Neg", "Neg", "Relu"}) x = grower.add(op, {x}).front();
  const Sample before = std::move(grower).finish();
  std::optional<Sample> after;
  std::vector<Complaint> complaints;
  Counts counts;
  for (int i = 0; i < 50 && complaints.empty(); ++i) {
    after = apply_law(before, "identity", rng);
    ASSERT_TRUE(after);
    complaints = judge_law(backend, before, *after, "identity", counts);
  }
  ASSERT_FALSE(complaints.empty());
  EXPECT_TRUE(complaints[0].proven);
  std::optional<Finding> made = make_law_finding(backend, before, *after, "identity", complaints[0]);
  ASSERT_TRUE(made);
  Finding& finding = *made;
  EXPECT_EQ(op_chain(finding.before), "Relu");
  EXPECT_EQ(op_chain(finding.sample), "Identity -> Relu");
  EXPECT_EQ(finding.complaint.symptom, Symptom::broken_law);
  fs::create_directories(folder);
  write_finding(finding, (folder / "law").string());
  const StoredFinding stored = read_finding((folder / "law").string());
  EXPECT_EQ(stored.evidence.law, "identity");
  EXPECT_FALSE(judge_again(backend, stored.evidence, counts).empty());
  Backend right = faulty("none");
  EXPECT_TRUE(judge_again(right, stored.evidence, counts).empty());
}

}  // namespace
}  // namespace finity::fuzz
