// The programs of the GRIST benchmark: complete, well formed, and what a check says of every bug and its repair.
#include "bench/grist.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/static_check.h"

namespace finity {
namespace {

TEST(Grist, HasSixtyThreeProgramsWithSeventyNineBugs) {
  std::set<int> programs;
  std::map<std::string, int> ops;
  for (const GristBug& bug : grist_bugs()) {
    programs.insert(bug.program());
    ++ops[bug.op];
  }
  EXPECT_EQ(grist_bugs().size(), 79U);
  EXPECT_EQ(programs.size(), 63U);
  EXPECT_EQ(ops, (std::map<std::string, int>{{"log", 59}, {"exp", 9}, {"division", 6}, {"sqrt", 5}}));
}

TEST(Grist, BugsAreThoseOfThePublishedTableInItsOrder) {
  ASSERT_EQ(grist_bugs().size(), published_table().size());
  for (std::size_t i = 0; i < grist_bugs().size(); ++i) EXPECT_EQ(grist_bugs()[i].id, published_table()[i].id);
}

TEST(Grist, PublishedTableAddsUpToThePapersTotals) {
  constexpr double kLimit = 1800;  // seconds that stand for a bug which was never hit
  int plain = 0, grist = 0, grist_ns = 0, debar = 0;
  double plain_seconds = 0, grist_seconds = 0, grist_ns_seconds = 0;
  const auto seconds = [](const PublishedResult& result) { return result.hits > 0 ? result.seconds : kLimit; };
  for (const PublishedRow& row : published_table()) {
    plain += row.plain.hits;
    grist += row.grist.hits;
    grist_ns += row.grist_ns.hits;
    debar += row.debar ? 1 : 0;
    plain_seconds += seconds(row.plain);
    grist_seconds += seconds(row.grist);
    grist_ns_seconds += seconds(row.grist_ns);
  }
  EXPECT_EQ(plain, 429);
  EXPECT_EQ(grist, 766);
  EXPECT_EQ(grist_ns, 645);
  EXPECT_EQ(debar, 48);
  EXPECT_NEAR(plain_seconds / 79, 1091.47, 0.01);
  EXPECT_NEAR(grist_seconds / 79, 124.11, 0.01);
  EXPECT_NEAR(grist_ns_seconds / 79, 365.19, 0.01);
}

class GristBugTest : public testing::TestWithParam<std::size_t> {
 protected:
  const GristBug& bug() const { return grist_bugs()[GetParam()]; }
};

TEST_P(GristBugTest, CheckReportsTheBugAndProvesItsRepair) {
  const StaticVerdict verdict = check_bug(bug());
  EXPECT_TRUE(verdict.found) << verdict.problem;
  EXPECT_TRUE(verdict.repair_proved) << verdict.problem;
}

INSTANTIATE_TEST_SUITE_P(All, GristBugTest, testing::Range<std::size_t>(0, 79),
                         [](const auto& info) { return "Bug" + grist_bugs()[info.param].id; });

}  // namespace
}  // namespace finity
