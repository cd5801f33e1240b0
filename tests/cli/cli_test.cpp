// testdata/cli/*.txt: a command line, its output and its exit code. Commands run in
// the repository's root. FINITY_UPDATE=1 rewrites the expectations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

class CliGolden : public testing::TestWithParam<std::string> {};

// First line "$ finity ARGUMENTS", then the output, then "exit CODE".
TEST_P(CliGolden, Matches) {
  const std::string path = testdata_folder() + "/cli/" + GetParam() + ".txt";
  const std::string golden = read_text_file(path);
  const std::string start = "$ finity ";
  ASSERT_TRUE(golden.starts_with(start)) << path;
  const std::string arguments = golden.substr(start.size(), golden.find('\n') - start.size());
  const Finished finished = run(arguments);
  const std::string actual =
      start + arguments + "\n" + finished.output + "exit " + std::to_string(finished.exit_code) + "\n";
  if (std::getenv("FINITY_UPDATE") != nullptr) write_file_atomically(path, actual);
  else EXPECT_EQ(actual, golden) << path;
}

std::vector<std::string> goldens() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/cli")) names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Commands, CliGolden, testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param; });

TEST(Cli, ConvertsBothWays) {
  const TemporaryFolder folder;
  const std::string model = folder.file("model.onnx");
  const std::string again = folder.file("again.txt");
  ASSERT_EQ(run("convert examples/dynamic_classifier.txt -o " + model).exit_code, 0);
  ASSERT_EQ(run("convert " + model + " -o " + again).exit_code, 0);
  EXPECT_EQ(run("inspect --dump " + again).output, run("inspect --dump examples/dynamic_classifier.txt").output);
  EXPECT_EQ(run("convert examples/dynamic_classifier.txt -o " + folder.file("model.pb")).exit_code, 2);
}

TEST(Cli, OutputsCanBeReadBackAndCompared) {
  const TemporaryFolder folder;
  const std::string arrays = folder.file("out.npz");
  ASSERT_EQ(run("run examples/stable_softmax.txt -o " + arrays).exit_code, 0);
  const Finished same = run("run examples/stable_softmax.txt --data " + arrays + " --compare");
  EXPECT_EQ(same.exit_code, 0) << same.output;
  EXPECT_NE(same.output.find("identical"), std::string::npos) << same.output;
  const Finished different = run("run examples/naive_softmax.txt --data " + arrays + " --compare");
  EXPECT_EQ(different.exit_code, 1) << different.output;
}

TEST(Cli, RunNamesTheNodeThatMadeTheFirstNan) {
  const TemporaryFolder folder;
  const std::string model = folder.file("model.txt");
  write_file_atomically(model,
                        "opset 17\ngraph g (x: float32[3] = {1, 0, 4}) -> (y) { l = Log(x) @ \"logarithm\"\n"
                        " m = Relu(x) @ \"harmless\"\n z = Sub(l, l) @ \"difference\"\n y = Add(z, m) }");
  const Finished failed = run("run " + model + " --trace --only-nonfinite");
  EXPECT_EQ(failed.exit_code, 1) << failed.output;
  EXPECT_NE(failed.output.find("node 'logarithm' (Log) made it first"), std::string::npos) << failed.output;
  EXPECT_NE(failed.output.find("operand 'x' is 0 there"), std::string::npos) << failed.output;
  EXPECT_NE(failed.output.find("difference"), std::string::npos) << failed.output;
  EXPECT_EQ(failed.output.find("harmless"), std::string::npos) << failed.output;
  EXPECT_EQ(run("run examples/stable_softmax.txt").exit_code, 0);
}

TEST(Cli, BadFilesGiveOneLineAndExitTwo) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("empty.onnx"), "");
  write_file_atomically(folder.file("noise.onnx"), "\xff\xfe not a model at all");
  write_file_atomically(folder.file("cut.onnx"), std::string("\x08\x08\x3a\x7f\x0a", 5));
  for (const std::string& name : {folder.file("empty.onnx"), folder.file("noise.onnx"), folder.file("cut.onnx"),
                                  folder.file("missing.onnx"), folder.file("")}) {
    for (const char* command : {"inspect", "run", "check"}) {
      const Finished finished = run(std::string(command) + " " + name);
      EXPECT_EQ(finished.exit_code, 2) << name;
      EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
      EXPECT_NE(finished.output.find(name), std::string::npos) << finished.output;
    }
  }
}

}  // namespace
}  // namespace finity
