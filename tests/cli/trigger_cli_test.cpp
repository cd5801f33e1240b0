// trigger, replay and the backward pass, as people call them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/version_functions.h"
#include "ops/table/composite.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const std::string kDistance = root_folder() + "/examples/distance.txt --range '*:[-10,10]'";
const std::string kSoftmax = root_folder() + "/examples/naive_softmax.txt --range 'x:[-100,100]'";
const std::string kStable = root_folder() + "/examples/stable_softmax.txt --range 'x:[-100,100]'";
const std::string kSum = root_folder() + "/testdata/models/large_sum.txt --range 'x:[-100,100]'";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Trigger : public testing::Test {
 protected:
  Finished run(const std::string& arguments) { return run_in(folder_.path(), arguments); }

  TemporaryFolder folder_;
};

TEST_F(Trigger, FindsTheInputThatFails) {
  const Finished finished = run("trigger --engine reference " + kSoftmax);
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.output, "confirmed FN201")) << finished.output;
  EXPECT_TRUE(contains(finished.output, "seen when run")) << finished.output;
  EXPECT_EQ(run("trigger " + kStable).exit_code, 0);
}

TEST_F(Trigger, WitnessesAreReplayed) {
  run("trigger --engine reference --witness w " + kSoftmax);
  ASSERT_FALSE(fs::is_empty(folder_.file("w")));
  for (const auto& entry : fs::directory_iterator(folder_.file("w"))) {
    const Finished again = run("replay w/" + entry.path().filename().string());
    EXPECT_EQ(again.exit_code, 1) << again.output;
    EXPECT_TRUE(contains(again.output, "reference: not finite: 'probabilities'")) << again.output;
    const Finished absent = run("replay --backends ort@9.9.9 w/" + entry.path().filename().string());
    EXPECT_EQ(absent.exit_code, 2) << "a library that was asked for is not passed over: " << absent.output;
    EXPECT_TRUE(contains(absent.output, "ort@9.9.9 is not installed")) << absent.output;
  }
  const Finished missing = run("replay nowhere");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.output, "nowhere")) << missing.output;
}

// The backward pass is of a newer operator set than the model, and has to be told apart from it in the file.
TEST_F(Trigger, WitnessesOfOldModelsSayWhyLibrariesRefuseThem) {
  const auto reason = [&](const std::string& opset, const std::string& reduce) {
    write_file_atomically(folder_.file("m.txt"), "opset " + opset + R"(
graph g (x: float32[4]) -> (y) {
  const axes: int64[1] = {0}
  r = Sqrt(x) @ "root"
  y = )" + reduce + "\n}\n");
    fs::remove_all(folder_.file("w"));
    run("trigger --train --engine reference --range 'x:[0,1]' --witness w m.txt");
    std::vector<Note> notes;
    const auto entry = fs::directory_iterator(folder_.file("w"));
    return onnx::versions_apart(read_onnx((entry->path() / "model.onnx").string(), notes));
  };
  const std::string old = reason("11", "ReduceSum(r) {axes = [0], keepdims = 0}");
  EXPECT_TRUE(contains(old, "imports operator set 11, and ")) << old;
  EXPECT_TRUE(contains(old, "export the model for a newer set")) << old;
  // One operator set for both leaves nothing to say.
  EXPECT_EQ(reason(std::to_string(kPartOpset), "ReduceSum(r, axes) {keepdims = 0}"), "");
}

// Somebody wants to see what an image looks like that makes a model fail.
TEST_F(Trigger, WitnessesShowImages) {
  write_file_atomically(folder_.file("m.txt"), R"(opset 17
graph g (picture: float32[1, 3, 8, 8], row: float32[4]) -> (y: float32[1, 3, 8, 8], z: float32[4]) {
  y = Log(picture)
  z = Abs(row)
}
)");
  run("trigger --engine reference --range '*:[0,1]' --witness w m.txt");
  ASSERT_TRUE(fs::exists(folder_.file("w")));
  for (const auto& entry : fs::directory_iterator(folder_.file("w"))) {
    EXPECT_TRUE(read_text_file((entry.path() / "input_0.png").string()).starts_with("\x89PNG")) << entry.path();
    EXPECT_FALSE(fs::exists(entry.path() / "input_1.png"));
  }
}

// Archives of PyTorch are recognised by what is in them, and refused in one line when they cannot be read.
TEST_F(Trigger, BrokenArchivesOfPyTorchAreErrors) {
  const std::string head = "PK\x03\x04", end = "PK\x05\x06";
  write_file_atomically(folder_.file("weights.pt"), head + "archive/data.pkl" + end);
  const Finished weights = run("check weights.pt");
  EXPECT_EQ(weights.exit_code, 2);
  EXPECT_TRUE(contains(weights.output, "weights.pt: holds PyTorch weights without their code")) << weights.output;
  write_file_atomically(folder_.file("broken.pt"), head + "archive/data.pkl archive/code/__torch__.py" + end);
  const Finished broken = run("check broken.pt");
  EXPECT_EQ(broken.exit_code, 2) << broken.output;
  EXPECT_TRUE(contains(broken.output, "broken.pt: ")) << broken.output;
  EXPECT_EQ(std::ranges::count(broken.output, '\n'), 1) << broken.output;
  write_file_atomically(folder_.file("cut.pt"), head + "archive/data.pkl");
  const Finished cut = run("check cut.pt");
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_TRUE(contains(cut.output, "cut.pt: is an archive without its end")) << cut.output;
}

TEST_F(Trigger, FindingsOfTheBackwardPassNameTheForwardNode) {
  EXPECT_EQ(run("check " + kDistance).exit_code, 0);
  const Finished trained = run("check --train " + kDistance);
  EXPECT_EQ(trained.exit_code, 1);
  EXPECT_TRUE(contains(trained.output, "possible FN101")) << trained.output;
  EXPECT_TRUE(contains(trained.output, "for the derivative of node 'root' (Sqrt)")) << trained.output;
  EXPECT_TRUE(contains(trained.output, "gradient of 'loss' by 2 inputs")) << trained.output;
  const Finished chosen = run("check --train --by a " + kDistance);
  EXPECT_TRUE(contains(chosen.output, "gradient of 'loss' by 1 input,")) << chosen.output;
  const Finished confirmed = run("check --train --confirm --engine reference " + kDistance);
  EXPECT_TRUE(contains(confirmed.output, "confirmed FN101")) << confirmed.output;
}

// The engine lies beside the program, so a copy of the program alone has none.
TEST_F(Trigger, WithoutTheEngineTheReferenceIsUsedAndANoteSaysSo) {
  const std::string alone = folder_.file("finity");
  fs::copy_file(FINITY_PROGRAM, alone);
  for (const std::string& what : {kSoftmax, root_folder() + "/examples/programs/softmax_regression_repaired.toml"}) {
    const Finished finished = run_in(folder_.path(), "trigger " + what, alone);
    EXPECT_TRUE(contains(finished.output, "the reference is used, which is slower")) << finished.output;
    EXPECT_NE(finished.exit_code, 2) << finished.output;
  }
  EXPECT_EQ(run_in(folder_.path(), "trigger --engine torch " + kSoftmax, alone).exit_code, 2);
}

// A gradient that stops is not green.
TEST_F(Trigger, UnknownDerivativesAreSaid) {
  write_file_atomically(folder_.file("m.txt"), R"(opset 17
opset ai.onnx.ml 3
graph g (x: float32[2, 2]) -> (y: float32[2, 2]) {
  y = ai.onnx.ml.Scaler(x) {offset = [0.0], scale = [2.0]}
}
)");
  const Finished finished = run("check --train m.txt");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.output, "unknown FN905")) << finished.output;
}

const std::string kPrograms = root_folder() + "/examples/programs/";

TEST_F(Trigger, TrainingProgramsFailAndAreReplayed) {
  const Finished finished = run("trigger --witness w --site log " + kPrograms + "softmax_regression.toml");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.output, "confirmed FN102")) << finished.output;
  EXPECT_TRUE(contains(finished.output, "at node 'log' (Log)")) << finished.output;
  const Finished again = run("replay w/softmax_regression");
  EXPECT_EQ(again.exit_code, 1) << again.output;
  EXPECT_TRUE(contains(again.output, "reference: trained from the start: not finite")) << again.output;
  EXPECT_TRUE(contains(again.output, "node 'log' (Log) made the first")) << again.output;
}

TEST_F(Trigger, RepairedProgramsAreProved) {
  const Finished finished = run("trigger " + kPrograms + "softmax_regression_repaired.toml");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(contains(finished.output, "proved, for weights in [-100, 100]")) << finished.output;
}

// Sums overflow with weights of any size, though no training makes them so large.
TEST_F(Trigger, RepairedProgramsAreNotConfirmedWhateverTheirWeights) {
  std::string text = read_text_file(kPrograms + "softmax_regression_repaired.toml");
  text = std::regex_replace(text, std::regex("reach = [^\n]*"), "");
  text = std::regex_replace(text, std::regex("model = \""), "model = \"" + kPrograms);
  write_file_atomically(folder_.file("p.toml"), text);
  const Finished finished = run("trigger --time-limit 1 --fail-on confirmed p.toml");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(contains(finished.output, "possible at ")) << finished.output;
  EXPECT_TRUE(contains(finished.output, "'reach' of W, b")) << finished.output;
  const Finished as_json = run("trigger --time-limit 1 --fail-on confirmed --format json p.toml");
  EXPECT_EQ(as_json.exit_code, 0) << as_json.output;
  EXPECT_TRUE(contains(as_json.output, "\"verdict\": \"possible\"")) << as_json.output;
}

// No search walks into a branch, so what may fail there keeps the answer from being green.
TEST_F(Trigger, SitesInsideBranchesAreNotPassedOver) {
  write_file_atomically(folder_.file("m.txt"), R"(opset 17
graph g (x: float32[N, 2], w: float32[2]) -> (loss: float32[]) {
  const zero: float32[] = {0}
  scaled = Mul(x, w)
  s = ReduceMean(scaled) {keepdims = 0}
  c = Greater(s, zero)
  loss = If(c) {
    then_branch = graph yes () -> (a) {
      r = Relu(w)
      l = Log(r) @ "log"
      a = ReduceMean(l) {keepdims = 0}
    },
    else_branch = graph no () -> (b) {
      b = Neg(s)
    }
  }
}
)");
  write_file_atomically(folder_.file("p.toml"),
                        "model = 'm.txt'\nloss = 'loss'\nbatch = 2\n[inputs.x]\nvalues = [[1, 2], [2, 1]]\n"
                        "[weights.w]\nvalues = [0.5, 0.5]\nreach = 2\n[optimiser]\nkind = 'sgd'\nrate = 0.001\n");
  const Finished finished = run("trigger --time-limit 1 p.toml");
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(contains(finished.output, "FN102 node 'log' (Log): not searched")) << finished.output;
}

TEST_F(Trigger, WrongProgramsAreErrors) {
  const auto expect_error = [&](const std::string& text, const std::string& words) {
    write_file_atomically(folder_.file("p.toml"), text);
    const Finished finished = run("trigger p.toml");
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(contains(finished.output, words)) << finished.output;
  };
  expect_error("model = 'm.txt'\nbatch =", "p.toml:2");
  expect_error("model = 'nowhere.txt'", "p.toml:1");
  expect_error("batch = 1", "'model' is missing");
  const std::string model = "model = '" + root_folder() + "/examples/programs/softmax_regression.txt'\n";
  expect_error(model + "[inputs.x]\ndata = 'idx:nowhere'\n", "p.toml:3");
  expect_error(model + "[inputs.x]\ndata = 'digits.images'\n", "input 'y' is neither");
  EXPECT_EQ(run("trigger missing.toml").exit_code, 2);
  const Finished folder = run("trigger .");
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_EQ(std::ranges::count(folder.output, '\n'), 1) << folder.output;
  EXPECT_EQ(run("trigger --range x:[0,1] " + kPrograms + "softmax_regression.toml").exit_code, 2);
}

TEST_F(Trigger, WrongWordsAreErrors) {
  const auto expect_error = [&](const std::string& arguments, const std::string& word) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit_code, 2) << arguments << "\n" << finished.output;
    EXPECT_TRUE(contains(finished.output, word)) << finished.output;
  };
  expect_error("check --loss loss " + kDistance, "--train");
  expect_error("check --train --loss lost " + kDistance, "'loss'");
  expect_error("check --train --by zz " + kDistance, "'zz'");
  expect_error("check --site root " + kDistance, "--confirm");
  expect_error("trigger --site rot " + kSoftmax, "rot");
  expect_error("trigger --keep-list k.txt " + kSum, "--as");
  EXPECT_FALSE(fs::exists(folder_.file("k.txt")));
}

TEST_F(Trigger, KeepListsAreWrittenForConverters) {
  EXPECT_EQ(run("check --as fp16 --keep-list k.txt " + kSum).exit_code, 1);
  run("check --as half --keep-list k.json " + kSum);
  const Json names = Json::parse(read_text_file(folder_.file("k.json")));
  std::string lines;
  for (const Json& name : names) lines += name.get<std::string>() + "\n";
  EXPECT_FALSE(names.empty());
  EXPECT_EQ(read_text_file(folder_.file("k.txt")), lines);
}

}  // namespace
}  // namespace finity
