// DEBAR's evaluation: the nine architectures are what the paper describes, every bug is reported and every twin proved,
// and the strongest combination loses nothing that a weaker one proves.
#include "bench/debar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/debar_graphs.h"
#include "bench/debar_report.h"
#include "bench/table.h"

namespace finity {
namespace {

class DebarGraphTest : public testing::TestWithParam<std::size_t> {
 protected:
  const DebarGraph& graph() const { return debar_graphs()[GetParam()]; }
};

TEST_P(DebarGraphTest, HasTheSitesOfThePaper) {
  const DebarPublished* paper = find_debar_published(graph().name);
  ASSERT_NE(paper, nullptr);
  const DebarResult result = measure(debar_subjects(false)[GetParam()], {}, 0);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(graph().bugs.size(), static_cast<std::size_t>(paper->true_positives));
  EXPECT_EQ(result.sites.size(), static_cast<std::size_t>(paper->true_positives + paper->true_negatives));
}

TEST_P(DebarGraphTest, EveryBugIsReportedAndNothingElseInEveryCombination) {
  const DebarSubject subject = debar_subjects(false)[GetParam()];
  for (const DebarSetting& setting : debar_combinations()) {
    const DebarScore found = score(subject, measure(subject, setting, 60));
    EXPECT_EQ(found.false_negatives, 0) << setting.name();
    EXPECT_EQ(found.false_positives, 0) << setting.name();
    EXPECT_EQ(found.true_positives, static_cast<int>(graph().bugs.size())) << setting.name();
  }
}

TEST_P(DebarGraphTest, TheTwinIsProved) {
  const DebarResult result = measure(debar_subjects(true)[GetParam()], {}, 0);
  EXPECT_EQ(result.error, "");
  EXPECT_TRUE(result.complete);
  for (const DebarSite& site : result.sites) EXPECT_EQ(site.verdict, Verdict::proved) << site.node << ": " << site.seen;
}

INSTANTIATE_TEST_SUITE_P(All, DebarGraphTest, testing::Range<std::size_t>(0, 9), [](const auto& info) {
  std::string name = debar_graphs()[info.param].name;
  std::erase(name, '-');
  return name;
});

TEST(Debar, TheStrongestCombinationProvesWhatTheOthersProve) {
  DebarReport report = {.settings = debar_combinations()};
  for (const bool twins : {false, true}) {
    for (DebarSubject& subject : debar_subjects(twins)) report.subjects.push_back(std::move(subject));
  }
  for (const DebarSetting& setting : report.settings) {
    report.results.emplace_back();
    for (const DebarSubject& subject : report.subjects) report.results.back().push_back(measure(subject, setting, 60));
  }
  const std::size_t strongest = report.settings.size() - 1;
  ASSERT_EQ(report.settings[strongest].name(), DebarSetting().name());
  for (std::size_t i = 0; i < strongest; ++i) EXPECT_EQ(report.lost(i, strongest), std::vector<std::string>());
  for (const char* format : {"text", "csv", "markdown", "json"}) {
    EXPECT_NE(debar_in_format(report, format).find("GitHub-IPS-1"), std::string::npos) << format;
  }
  EXPECT_THROW(debar_in_format(report, "yaml"), Error);
}

TEST(Debar, WithoutRangesLessIsProvedAndNoBugIsLost) {
  for (const DebarSubject& subject : debar_subjects(false)) {
    const std::size_t all = measure(subject, {}, 0).count(Verdict::proved);
    for (const DebarSetting& setting : debar_ablations()) {
      if (setting.compat) continue;
      const DebarResult result = measure(subject, setting, 0);
      EXPECT_LE(result.count(Verdict::proved), all) << subject.name << ", " << setting.name();
      EXPECT_EQ(score(subject, result).false_negatives, 0) << subject.name << ", " << setting.name();
    }
  }
}

TEST(DebarLabels, SayWhatIsRealAndWhatInputsHold) {
  const DebarLabelFile file = read_debar_labels(
      "# graph\tnode\tlabel\tkind\tdeclare\n"
      "a.pb\tLog\treal\tlog of a softmax\n"
      "a.pb\tdiv\tcontract\tkeep probability\tkeep:[0.1,1]; box[2] >= box[0]\n",
      "labels.tsv");
  const DebarLabels& labels = file.at("a.pb");
  EXPECT_EQ(labels.sites.at("Log"), DebarLabel::real);
  EXPECT_EQ(labels.sites.at("div"), DebarLabel::contract);
  EXPECT_EQ(labels.ranges, std::vector<std::string>{"keep:[0.1,1]"});
  EXPECT_EQ(labels.orders, std::vector<std::string>{"box[2] >= box[0]"});
}

TEST(DebarLabels, AWrongLineIsNamed) {
  for (const char* line : {"a.pb\tLog\n", "a.pb\tLog\tperhaps\n", "a.pb\tLog\treal\na.pb\tLog\treal\n",
                           "a.pb\tLog\tcontract\tk\tx:[1,\n"}) {
    try {
      read_debar_labels(line, "labels.tsv");
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("labels.tsv:")) << error.what();
    }
  }
}

TEST(DebarScore, CountsAlarmsByLabel) {
  DebarSubject subject = {
      .labels = {.sites = {{"a", DebarLabel::real}, {"b", DebarLabel::real}, {"c", DebarLabel::contract}}}};
  DebarResult result;
  result.sites = {{.node = "a", .verdict = Verdict::possible},
                  {.node = "b", .verdict = Verdict::proved},
                  {.node = "c", .verdict = Verdict::unknown},
                  {.node = "d", .verdict = Verdict::proved}};
  const DebarScore found = score(subject, result);
  EXPECT_EQ(found.true_positives, 1);
  EXPECT_EQ(found.false_negatives, 1);
  EXPECT_EQ(found.false_positives, 1);
  EXPECT_EQ(found.true_negatives, 1);
  EXPECT_DOUBLE_EQ(found.accuracy(), 50);
}

// An error stands behind its graph and makes no column wider.
TEST(DebarTable, ErrorsWidenNoColumn) {
  EXPECT_EQ(table_text({{"graph", "nodes", "sites"}, {"a", "this could not be read"}, {"bb", "12", "3"}}),
            "graph  nodes  sites\na      this could not be read\nbb     12     3\n");
}

}  // namespace
}  // namespace finity
