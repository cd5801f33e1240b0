// One campaign by many: shards over a folder, workers over a server, and what is left when they are killed.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "fuzz/campaign_support.h"
#include "fuzz/folder.h"
#include "fuzz/postgres_server.h"
#include "fuzz/segment.h"
#include "fuzz/summary.h"

namespace finity::fuzz {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct ShardsTest : CampaignTest {
  CampaignOptions shard(int number, int count, const std::string& name, std::int64_t models) const {
    CampaignOptions result = options("relu", name, models);
    result.shard = {.number = number, .count = count};
    return result;
  }

  // What does not depend on who looked into what.
  std::vector<std::string> seen(const std::string& name) const {
    std::vector<std::string> lines;
    for (const std::string& line : contents(name)) {
      if (!line.starts_with("run|") && !line.starts_with("finding|") && !line.starts_with("looked|"))
        lines.push_back(line);
    }
    std::ranges::sort(lines);
    return lines;
  }

  std::set<std::string> keys(const std::string& name) const {
    std::set<std::string> result;
    for (const Row& row : open_sqlite((folder / name / kLedgerFile).string())->query("SELECT key FROM finding"))
      result.insert(as_text(row[0]));
    return result;
  }

  void expect_folders(const std::string& name) const {
    const Summary summary = read_summary((folder / name).string());
    for (const FindingLine& finding : summary.findings)
      EXPECT_EQ(op_chain(read_finding((folder / name / finding.folder).string()).evidence.sample), finding.chain);
  }
};

// Runs a campaign in a process of its own and kills it after a while. True when it was done before.
bool run_and_kill(const CampaignOptions& options, std::chrono::milliseconds after) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      run_campaign(options, {});
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

void run_killed_again_and_again(CampaignOptions options) {
  options.resume = true;
  int kills = 0;
  // The spans grow, so that an end comes on a slow machine too.
  while (!run_and_kill(options, std::chrono::milliseconds(30 + 40 * kills))) ASSERT_LT(++kills, 100);
  EXPECT_GT(kills, 0);
}

TEST_F(ShardsTest, TogetherSeeWhatOneCampaignSees) {
  run_campaign(options("relu", "whole", 90), {});
  for (int number = 3; number >= 1; --number) run_campaign(shard(number, 3, "shards", 90), {});
  EXPECT_THROW(read_summary((folder / "shards").string()), Error);
  const Merged merged = merge_segments((folder / "shards").string());
  EXPECT_EQ(merged.models, 90);
  EXPECT_TRUE(merged.notes.empty());
  EXPECT_EQ(seen("whole"), seen("shards"));
  EXPECT_TRUE(std::ranges::includes(keys("shards"), keys("whole")));
  EXPECT_FALSE(keys("whole").empty());
  expect_folders("shards");
  // Merging again changes nothing.
  const std::vector<std::string> before = contents("shards");
  merge_segments((folder / "shards").string());
  EXPECT_EQ(contents("shards"), before);
}

TEST_F(ShardsTest, SayWhatIsMissingOrOfAnotherCampaign) {
  const std::string where = (folder / "shards").string();
  EXPECT_THROW(merge_segments(where), Error);
  run_campaign(shard(2, 3, "shards", 6), {});
  EXPECT_EQ(merge_segments(where).notes, (std::vector<std::string>{"shard 1/3 is missing", "shard 3/3 is missing"}));
  EXPECT_THROW(run_campaign(shard(2, 3, "shards", 6), {}), Error);  // not asked to go on
  CampaignOptions other = shard(1, 3, "shards", 6);
  other.seed = 9;
  run_campaign(other, {});
  EXPECT_THROW(merge_segments(where), Error);
  std::ofstream(folder / "shards" / segment_name({.number = 1, .count = 3})) << "something else\n";
  try {
    merge_segments(where);
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("segment-1-of-3.jsonl: line 1: is no segment"));
  }
}

TEST_F(ShardsTest, AShardHasOneProcess) {
  const CampaignOptions campaign = shard(1, 2, "shards", 40);
  CampaignHooks hooks;
  bool tried = false;
  hooks.progress = [&](const Progress&) {
    if (tried) return;
    tried = true;
    CampaignOptions again = campaign;
    again.resume = true;
    EXPECT_THROW(run_campaign(again, {}), Error);
  };
  run_campaign(campaign, hooks);
  EXPECT_TRUE(tried);
}

TEST_F(ShardsTest, KilledCampaignsGoOnAsIfNothingHadHappened) {
  CampaignOptions whole = options("relu", "whole", 120), killed = options("relu", "killed", 120);
  run_campaign(whole, {});
  run_killed_again_and_again(killed);
  EXPECT_EQ(contents("whole"), contents("killed"));
  expect_folders("killed");
  run_campaign(shard(2, 2, "one", 240), {});
  run_killed_again_and_again(shard(2, 2, "two", 240));
  merge_segments((folder / "one").string());
  merge_segments((folder / "two").string());
  EXPECT_EQ(contents("one"), contents("two"));
}

TEST_F(ShardsTest, AnUnfinishedLineCountsAsNotWritten) {
  run_campaign(shard(1, 2, "whole", 30), {});
  run_campaign(shard(1, 2, "torn", 20), {});
  std::ofstream(folder / "torn" / segment_name({.number = 1, .count = 2}), std::ios::app) << R"({"id":20,"orig)";
  EXPECT_EQ(merge_segments((folder / "torn").string()).models, 10);
  CampaignOptions rest = shard(1, 2, "torn", 30);
  rest.resume = true;
  run_campaign(rest, {});
  for (const char* name : {"whole", "torn"}) merge_segments((folder / name).string());
  EXPECT_EQ(contents("whole"), contents("torn"));
}

// Whoever kills a worker, it is not the library's doing.
TEST_F(ShardsTest, KilledWorkersChangeNothing) {
  run_campaign(options("relu", "whole", 60), {});
  CampaignOptions disturbed = options("relu", "disturbed", 60);
  CampaignHooks hooks;
  int killed = 0;
  hooks.progress = [&](const Progress& progress) {
    if (progress.this_run % 5 != 0) return;
    const std::string command = "pkill -KILL -P " + std::to_string(::getpid()) + " faulty_worker";
    killed += std::system(command.c_str()) == 0 ? 1 : 0;
  };
  run_campaign(disturbed, hooks);
  EXPECT_GT(killed, 5);
  EXPECT_EQ(contents("whole"), contents("disturbed"));
}

struct StoreTest : ShardsTest {
  PostgresServer server;
  void SetUp() override {
    ShardsTest::SetUp();
    if (!server.running()) GTEST_SKIP() << "PostgreSQL is not installed (Debian: postgresql)";
  }
  CampaignOptions worker(std::int64_t models) const {
    CampaignOptions result = options("relu", "unused", models);
    result.store = server.address();
    return result;
  }
};

TEST_F(StoreTest, WorkersShareACampaignAndTakeOverWhatTheDeadLeft) {
  run_campaign(options("relu", "whole", 200), {});
  CampaignOptions claims = worker(200);
  claims.claim_seconds = 1.5;
  // Some are killed, some live; each finding is told once.
  for (int i = 0; i < 3; ++i) run_and_kill(claims, std::chrono::milliseconds(150 + 100 * i));
  std::vector<std::thread> workers;
  std::atomic<int> told = 0;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([&] {
      CampaignHooks hooks;
      hooks.found = [&](const Finding&, const std::string&) { ++told; };
      run_campaign(claims, hooks);
    });
  }
  for (std::thread& thread : workers) thread.join();
  const Merged fetched = fetch_campaign(server.address(), (folder / "fetched").string());
  EXPECT_EQ(fetched.models, 200);
  EXPECT_LE(told, fetched.findings);
  EXPECT_EQ(seen("whole"), seen("fetched"));
  EXPECT_FALSE(keys("fetched").empty());
  expect_folders("fetched");
  EXPECT_EQ(as_json(read_summary(server.address())), as_json(read_summary((folder / "fetched").string())));
  CampaignOptions other = claims;
  other.seed = 4;
  EXPECT_THROW(run_campaign(other, {}), Error);  // the store holds another campaign
}

TEST_F(StoreTest, AServerThatIsAwayForAMomentIsWaitedFor) {
  run_campaign(options("none", "whole", 60), {});
  CampaignOptions claims = worker(60);
  claims.open = [](const BackendSpec&) { return faulty("none"); };
  CampaignHooks hooks;
  bool restarted = false;
  hooks.progress = [&](const Progress& progress) {
    if (restarted || progress.this_run < 20) return;
    restarted = server.stop() && server.start();
  };
  run_campaign(claims, hooks);
  EXPECT_TRUE(restarted);
  fetch_campaign(server.address(), (folder / "fetched").string());
  EXPECT_EQ(seen("whole"), seen("fetched"));
  EXPECT_THROW(run_campaign(
                   [&] {
                     CampaignOptions nowhere = claims;
                     nowhere.store = "postgresql:///postgres?host=/nonexistent";
                     return nowhere;
                   }(),
                   {}),
               Error);
}

}  // namespace
}  // namespace finity::fuzz
