// finity fuzz, report, replay and backends as a user meets them.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/cli_support.h"
#include "support/paths.h"

namespace finity {
namespace {

using testing::HasSubstr;
using testing::Not;

struct FuzzCli : testing::Test {
  TemporaryFolder folder;

  // Some library that is built here; empty when there is none.
  static std::string some_backend() {
    const Finished all = run("backends --format json");
    for (const char* name : {"onednn", "opencv", "torch"}) {
      if (all.output.find('"' + std::string(name) + '@') != std::string::npos) return name;
    }
    return {};
  }
};

void expect_refused(const std::string& arguments, const std::string& words) {
  const Finished finished = run(arguments);
  EXPECT_EQ(finished.exit_code, 2) << arguments << "\n" << finished.output;
  EXPECT_THAT(finished.output, HasSubstr(words)) << arguments;
}

TEST_F(FuzzCli, SaysWhatIsWrongInOneLine) {
  const std::string here = " --workdir " + folder.file("campaign");
  expect_refused("fuzz --backends torch" + here, "say how long");
  expect_refused("fuzz --backends torch --models 5", "say where: --workdir DIR");
  expect_refused("fuzz --backends nonsense --models 5" + here, "nonsense");
  expect_refused("fuzz --backends torch --models 5 --shard 9/8" + here, "--shard 9/8: expected which of how many");
  expect_refused("fuzz --backends torch --models 5 --shard 0/8" + here, "1/8 is the first");
  expect_refused("fuzz --backends torch --models 5 --store file.sqlite", "postgresql://");
  expect_refused("fuzz --backends torch --models 5 --shard 1/2 --store postgresql://host/name", "exclude each other");
  expect_refused("fuzz --backends torch --time soon" + here, "--time soon");
  expect_refused("fuzz --backends torch --models 5 --ops NoSuchOp" + here, "NoSuchOp");
  expect_refused("fuzz --backends ort@0.0.1 --models 5" + here, "none of the backends is installed");
  expect_refused("fuzz merge " + folder.file("nothing"), "nothing: is not a folder");
  expect_refused("report " + folder.file("nothing"), "holds no campaign");
  expect_refused("report 'postgresql:///x?host=" + folder.path() + "'", "postgresql:///x");
  expect_refused("replay " + folder.file("nothing"), "nothing");
  EXPECT_FALSE(std::filesystem::exists(folder.file("campaign")));
}

TEST_F(FuzzCli, AFindingWithADamagedFileIsRefused) {
  std::ofstream(folder.file("fuzz.json")) << "{\"backend\": 5}";
  expect_refused("replay " + folder.path(), "fuzz.json: is not the description of a finding");
  std::ofstream(folder.file("fuzz.json")) << "{";
  expect_refused("replay " + folder.path(), "fuzz.json: is not JSON");
}

TEST_F(FuzzCli, CampaignsShardsAndReports) {
  const std::string backend = some_backend();
  if (backend.empty()) GTEST_SKIP() << "no library is built here";
  const std::string campaign = "fuzz --backends " + backend + " --models 12 --ops Relu,Add --no-strips --workdir ";
  const std::string whole = folder.file("whole"), shards = folder.file("shards");
  EXPECT_EQ(run(campaign + whole).exit_code, 0);
  expect_refused(campaign + whole, "go on with --resume");
  EXPECT_EQ(run(campaign + whole + " --resume").exit_code, 0);
  for (const char* shard : {"1/2", "2/2"}) EXPECT_EQ(run(campaign + shards + " --shard " + shard).exit_code, 0);
  expect_refused("report " + shards, "run finity fuzz merge");
  EXPECT_THAT(run("fuzz merge " + shards).output, HasSubstr("12 models, 0 findings"));
  auto one = nlohmann::json::parse(run("report --format json " + whole).output);
  auto two = nlohmann::json::parse(run("report --format json " + shards).output);
  EXPECT_EQ(one["models"], 12);
  for (const char* name : {"models", "runs", "layer_checks", "elements", "coverage"}) EXPECT_EQ(one[name], two[name]);
  EXPECT_EQ(run("report --format html --output " + folder.file("page.html") + " " + whole).exit_code, 0);
  EXPECT_GT(std::filesystem::file_size(folder.file("page.html")), 500U);
}

// The page in a real browser, where Debian's chromium is: nothing of it is wider than the window, and it is no blank.
TEST_F(FuzzCli, ThePageIsReadInABrowser) {
  const std::string backend = some_backend();
  if (backend.empty() || std::system("command -v chromium > /dev/null") != 0)
    GTEST_SKIP() << "no chromium is installed";
  run("fuzz --backends " + backend + " --models 12 --no-strips --workdir " + folder.file("campaign"));
  run("report --format html --output " + folder.file("page.html") + " " + folder.file("campaign"));
  std::string page;
  {
    std::ifstream file(folder.file("page.html"));
    page.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::string probe =
      "<script>document.title = 'width ' + (document.documentElement.scrollWidth - window.innerWidth) + ' rows ' + "
      "document.querySelectorAll('tr').length + ' curve ' + document.querySelectorAll('polyline').length</script>";
  std::ofstream(folder.file("page.html")) << page.replace(page.rfind("</body>"), 0, probe);
  const std::string command = "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir='" +
                              folder.file("profile") + "' --dump-dom 'file://" + folder.file("page.html") +
                              "' 2> /dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string seen;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) seen += static_cast<char>(c);
  if (pclose(pipe) != 0 || seen.empty()) GTEST_SKIP() << "chromium does not run here";
  EXPECT_THAT(seen, HasSubstr("<title>width "));
  EXPECT_THAT(seen, Not(HasSubstr("<title>width 1")));
  EXPECT_THAT(seen, HasSubstr(" curve 1"));
}

}  // namespace
}  // namespace finity
