// Runs on data that people have: what comes true on them, and what was seen beside what is proved.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "formats/npz/npz.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

using Json = nlohmann::json;

const std::string kSum = root_folder() + "/testdata/models/large_sum.txt --range 'x:[-100,100]'";

class Data : public testing::Test {
 protected:
  Finished run(const std::string& arguments) { return run_in(folder_.path(), arguments); }
  // The input of large_sum: 64 times the same number.
  void write_input(const std::string& file, double x, DType dtype = DType::float32) {
    const std::vector<double> numbers(64, x);
    write_file_atomically(folder_.file(file), write_npz({{"x", from_elements<double>(dtype, {64}, numbers)}}));
  }
  Json checked(const std::string& arguments) {
    run("check --json-output out.json " + arguments + " " + kSum);
    return Json::parse(read_text_file(folder_.file("out.json"))).at("models")[0];
  }

  TemporaryFolder folder_;
};

// 64 * 90 * 90 is beyond 65504.
TEST_F(Data, FindingsComeTrueOnData) {
  write_input("large.npz", 90);
  const Finished finished = run("check --as float16 --data large.npz " + kSum);
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_NE(finished.output.find("confirmed FN205"), std::string::npos) << finished.output;
  EXPECT_NE(finished.output.find("seen to fail when converted: [\"sum\"]"), std::string::npos) << finished.output;
}

// The sum of squares is 64 at most: a thousandth of the limit. Draws at the ends of the contract reach ten times it.
TEST_F(Data, WhatWasSeenStandsBesideWhatIsProved) {
  write_input("small.npz", 1);
  const Json report = checked("--as float16 --data small.npz");
  const Json& keep = report.at("keep_nodes");
  EXPECT_TRUE(keep.at("proved"));
  EXPECT_GT(keep.at("observed_runs").get<int>(), 1);
  const auto& nodes = keep.at("nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] != "sum") continue;
    EXPECT_NEAR(keep.at("observed_share_of_limit")[i].get<double>(), 64 * 10000 / 65504., 1e-3);
  }
  // Without a conversion only the data are run.
  const Json plain = checked("--as float32 --data small.npz");
  EXPECT_TRUE(plain.at("findings").empty());
}

// One of many files is the one that fails.
TEST_F(Data, AFolderOfFilesIsARunForEach) {
  std::filesystem::create_directories(folder_.file("samples"));
  write_input("samples/a.npz", 1);
  write_input("samples/b.npz", 90);
  const Finished finished = run("check --as float16 --data samples --keep-list keep.txt " + kSum);
  EXPECT_NE(finished.output.find("confirmed FN205"), std::string::npos) << finished.output;
  const auto runs_of = [&](const char* data) {
    return checked(std::string("--as float16 --data ") + data).at("keep_nodes").at("observed_runs").get<int>();
  };
  EXPECT_EQ(runs_of("samples"), runs_of("samples/a.npz") + 1);
  EXPECT_EQ(read_text_file(folder_.file("keep.txt")), "sum\nshift\nroot\n");
  write_input("samples/c.npz", 1000);
  const Finished outside = run("check --as float16 --data samples " + kSum);
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_NE(outside.output.find("c.npz"), std::string::npos) << outside.output;
}

TEST_F(Data, BadDataAreErrors) {
  write_input("outside.npz", 1000);
  write_input("integers.npz", 1, DType::int32);
  const auto expect_error = [&](const std::string& data, const std::string& words) {
    const Finished finished = run("check " + kSum + " --data " + data);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_NE(finished.output.find(words), std::string::npos) << finished.output;
  };
  expect_error("outside.npz", "'x'");
  expect_error("integers.npz", "int32");
  expect_error("nowhere.npz", "nowhere.npz");
}

TEST_F(Data, NodesGetNamesOnRequest) {
  write_file_atomically(folder_.file("m.txt"), R"(opset 17
graph g (x: float32[2]) -> (y: float32[2]) {
  h = Exp(x)
  y = Log(h) @ "log"
}
)");
  EXPECT_EQ(run("convert m.txt --name-nodes -o named.txt").exit_code, 0);
  const std::string text = read_text_file(folder_.file("named.txt"));
  EXPECT_NE(text.find("@ \"Exp_0\""), std::string::npos) << text;
  EXPECT_NE(text.find("@ \"log\""), std::string::npos) << text;
}

}  // namespace
}  // namespace finity
