// Exit 0 means that everything asked for was checked and proved: what is not checked, guessed or misspelt is said.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const std::string kBuggy = root_folder() + "/testdata/models/log_of_relu.txt";
const std::string kRepaired = root_folder() + "/testdata/models/log_of_shifted_relu.txt";
const std::string kUnmodelled = root_folder() + "/testdata/models/custom_op.txt";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Trust : public testing::Test {
 protected:
  Finished check(const std::string& arguments) { return run_in(folder_.path(), "check " + arguments); }
  // A model of one graph in the folder.
  std::string model(const std::string& name, const std::string& signature, const std::string& body) {
    fs::create_directories(fs::path(folder_.file(name)).parent_path());
    write_file_atomically(folder_.file(name), "opset 17\ngraph g " + signature + " {\n" + body + "\n}\n");
    return name;
  }
  Json findings(const std::string& arguments) {
    check(arguments + " --json-output out.json");
    return Json::parse(read_text_file(folder_.file("out.json"))).at("models")[0].at("findings");
  }

  TemporaryFolder folder_;
};

// ---- what was not checked ------------------------------------------------------

TEST_F(Trust, WhatIsNotCheckedLeadsWhateverIsSelected) {
  for (const std::string options :
       {"", "--select FN1,FN2,FN3", "--select FN102", "--ignore FN1", "--ignore all", "--ignore FN", "--select all"}) {
    const Finished finished = check(kUnmodelled + " " + options);
    EXPECT_EQ(finished.exit_code, 1) << options;
    EXPECT_TRUE(contains(finished.output, ": NOT CHECKED: ")) << finished.output;
    EXPECT_TRUE(contains(finished.output, "(Twist")) << finished.output;
    EXPECT_FALSE(contains(finished.output, "all proved")) << finished.output;
    EXPECT_TRUE(contains(finished.output, "unknown FN901")) << finished.output;
  }
}

TEST_F(Trust, OnlyTheFullCodeSilencesWhatIsNotChecked) {
  for (const std::string option : {"FN9", "FN90"}) {
    const Finished refused = check(kUnmodelled + " --ignore " + option);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_TRUE(contains(refused.output, "FN901")) << refused.output;
  }
  const Finished silenced = check(kUnmodelled + " --ignore FN901,FN1,FN2");
  EXPECT_FALSE(contains(silenced.output, "unknown FN901")) << silenced.output;
  EXPECT_TRUE(contains(silenced.output, "NOT CHECKED: ")) << silenced.output;
  EXPECT_FALSE(contains(silenced.output, "all proved")) << silenced.output;
  write_file_atomically(folder_.file("finity.toml"), "[[check.accept]]\nrule = 'all'\n");
  EXPECT_EQ(check(kUnmodelled).exit_code, 1);
  write_file_atomically(folder_.file("finity.toml"), "[[check.accept]]\nrule = 'FN9'\n");
  EXPECT_EQ(check(kUnmodelled).exit_code, 2);
}

TEST_F(Trust, AnAnalysisThatStoppedIsNotGreen) {
  const Finished stopped = check(kRepaired + " --range 'x:[-1,1]' --memory-limit 0.0001 --select FN1");
  EXPECT_EQ(stopped.exit_code, 1) << stopped.output;
  EXPECT_TRUE(contains(stopped.output, "NOT CHECKED: ")) << stopped.output;
  EXPECT_TRUE(contains(stopped.output, "limit")) << stopped.output;
  EXPECT_FALSE(contains(stopped.output, "all proved")) << stopped.output;
}

// What no node reads is no premise of a proof.
TEST_F(Trust, OnlyInputsThatAreReadAreAssumed) {
  const std::string text =
      check(model("unread.txt", "(x: float32[4], unread: float32[4]) -> (y)", "y = Tanh(x)")).output;
  EXPECT_TRUE(contains(text, "assuming x in ")) << text;
  EXPECT_FALSE(contains(text, "unread in [")) << text;
}

TEST_F(Trust, TrainingSaysWhenOutputsHaveNoKnownFormat) {
  const Finished finished = check(kUnmodelled + " --train");
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(contains(finished.output, "operators that are not modelled")) << finished.output;
}

TEST_F(Trust, UnknownFailsUnlessItIsRelaxed) {
  EXPECT_EQ(check(kUnmodelled).exit_code, 1);
  EXPECT_EQ(check(kUnmodelled + " --fail-on possible").exit_code, 0);
  EXPECT_EQ(check(kBuggy + " --fail-on possible").exit_code, 1);
  EXPECT_EQ(check(kBuggy + " --fail-on confirmed").exit_code, 0);
}

// ---- baselines -------------------------------------------------------------------

TEST_F(Trust, ABaselineSpeaksOfOnePath) {
  const std::string a = model("a/model.txt", "(x: float32[4]) -> (y)", "y = Log(x) @ \"n\"");
  const std::string b = model("b/model.txt", "(x: float32[4]) -> (y)", "y = Log(x) @ \"n\"");
  const std::string range = " --range 'x:[0,1]'";
  ASSERT_EQ(run_in(folder_.path(), "baseline " + a + range + " -o known.json").exit_code, 0);
  EXPECT_EQ(check(a + range + " --baseline known.json").exit_code, 0);
  EXPECT_EQ(check(b + range + " --baseline known.json").exit_code, 1);
  EXPECT_EQ(check(a + " " + b + range + " --baseline known.json").exit_code, 1);
  // From another folder, or spelt otherwise, the model is the same.
  EXPECT_EQ(run_in(folder_.file("b"), "check ../a/model.txt" + range + " --baseline ../known.json").exit_code, 0);
  EXPECT_EQ(check(folder_.file("a/../a/model.txt") + range + " --baseline known.json").exit_code, 0);
}

// ---- findings that come true --------------------------------------------------------

TEST_F(Trust, WhatFailsForEveryInputIsConfirmed) {
  const std::string divisor = model("a.txt", "(x: float32[2]) -> (y)", "const z: float32[1] = {0}\n y = Div(x, z)");
  const std::string among = model("b.txt", "(x: float32[2]) -> (y)", "const z: float32[2] = {1, 0}\n y = Div(x, z)");
  const std::string constant =
      model("c.txt", "(x: float32[2]) -> (y)", "const c: float32[2] = {1, nan}\n y = Add(x, c)");
  const std::string integers = model("d.txt", "(x: int64[2]) -> (y)", "const z: int64[1] = {0}\n y = Div(x, z)");
  for (const std::string& file : {divisor, among, constant, integers}) {
    const Finished finished = check(file + " --range 'x:[1,2]'");
    EXPECT_EQ(finished.exit_code, 1) << finished.output;
    EXPECT_TRUE(contains(finished.output, ": confirmed FN")) << finished.output;
    EXPECT_EQ(check(file + " --range 'x:[1,2]' --fail-on confirmed").exit_code, 1) << file;
  }
}

TEST_F(Trust, WhatDoesNotFailWhenRunIsNotConfirmed) {
  // The NaN is there, but nothing of it reaches the output.
  const std::string unused =
      model("a.txt", "(x: float32[2]) -> (y)",
            "const c: float32[2] = {1, nan}\n const no: bool[1] = {false}\n y = Where(no, c, x)");
  EXPECT_FALSE(contains(check(unused + " --range 'x:[1,2]'").output, "confirmed")) << unused;
  // Zero is possible, but was not drawn.
  EXPECT_FALSE(contains(check(kBuggy + " --range 'x:[-1,1]'").output, "confirmed"));
}

TEST_F(Trust, VerifyConfirmsAndShowsTheInput) {
  const Finished finished = check(kBuggy + " --range 'x:[-1,1]' --verify 5");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.output, "confirmed FN102")) << finished.output;
  EXPECT_TRUE(contains(finished.output, "of 'y' is -Inf")) << finished.output;
  EXPECT_TRUE(contains(finished.output, "x = [")) << finished.output;
  const Json finding = findings(kBuggy + " --range 'x:[-1,1]' --verify 5").at(0);
  EXPECT_EQ(finding.at("verdict"), "confirmed");
  EXPECT_EQ(finding.at("failure").at("inputs").at(0).at("name"), "x");
}

TEST_F(Trust, WitnessesFailAgainWhenTheyAreRun) {
  const Json finding = findings(kBuggy + " --range 'x:[-1,1]' --verify 5 --witness found").at(0);
  const std::string written = finding.at("failure").at("folder");
  EXPECT_TRUE(fs::exists(folder_.file(written + "/test_data_set_0/input_0.pb"))) << written;
  for (const std::string data : {"/test_data_set_0", "/inputs.npz"}) {
    const Finished again = run_in(folder_.path(), "run " + kBuggy + " --data " + written + data);
    EXPECT_TRUE(contains(again.output, "-Inf")) << again.output;
  }
  // Nothing half-written is left, and a second run replaces the first.
  std::size_t entries = 0;
  findings(kBuggy + " --range 'x:[-1,1]' --verify 5 --witness found");
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.file("found"))) ++entries;
  EXPECT_EQ(entries, 1U);
}

TEST_F(Trust, WitnessesThatNeedFlushedNumbersFailAgain) {
  const std::string tiny =
      model("tiny.txt", "(x: float32[2]) -> (y)", "const w: float32[] = {1e-40}\n p = Mul(x, w)\n y = Reciprocal(p)");
  const std::string range = " --range 'x:[1e30,2e30]'";
  EXPECT_EQ(check(tiny + range + " --verify 5").exit_code, 0);
  const Json finding = findings(tiny + range + " --flush-subnormals --verify 5 --witness flushed").at(0);
  EXPECT_EQ(finding.at("verdict"), "confirmed");
  EXPECT_TRUE(contains(finding.at("failure").at("what"), "(subnormal numbers flushed)")) << finding;
  const Finished again = run_in(folder_.path(), "replay " + finding.at("failure").at("folder").get<std::string>());
  EXPECT_TRUE(contains(again.output, "reference: not finite: 'y'")) << again.output;
}

TEST_F(Trust, RunsThatShowNothingVerifyNothing) {
  // Every run stops at a shape that does not fit.
  const std::string stops = model("a.txt", "(x: float32[2], n: int64[1]) -> (y)", "e = Exp(x)\n y = Reshape(e, n)");
  const Finished finished = check(stops + " --range 'x:[0,1]' --range 'n:[5,5]' --verify 3");
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(contains(finished.output, "NOT VERIFIED: ")) << finished.output;
  EXPECT_FALSE(contains(finished.output, " verified: ")) << finished.output;
  const Finished good = check(kRepaired + " --range 'x:[-1,1]' --verify 3");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_TRUE(contains(good.output, "verified: 3 runs")) << good.output;
}

// ---- names that match nothing ---------------------------------------------------------

TEST_F(Trust, MisspeltNamesAreErrorsWithASuggestion) {
  const std::string image = model("a.txt", "(image: float32[batch, 4]) -> (y)", "y = Relu(image) @ \"first\"");
  write_file_atomically(folder_.file("inputs.toml"), "[inputs.imag]\nrange = [0, 1]\n");
  write_file_atomically(folder_.file("relation.toml"), "relations = ['image >= imgae']\n");
  const std::pair<std::string, std::string> cases[] = {
      {"--range 'img:[0,1]'", "did you mean 'image'?"},
      {"--range 'Image:[0,1]'", "did you mean 'image'?"},
      {"--range 'im?:[0,1]'", "matching 'im?'"},
      {"--range 'zz*:[0,1]'", "matching 'zz*'"},
      {"--shape bacth=2", "did you mean 'batch'?"},
      {"--shape imag:2,4", "did you mean 'image'?"},
      {"--contract inputs.toml", "did you mean 'image'?"},
      {"--contract relation.toml", "did you mean 'image'?"},
      {"--select log-of-nonpositiv", "did you mean 'log-of-nonpositive'?"},
      {"--ignore FN1o2", "did you mean 'FN102'?"},
  };
  for (const auto& [options, expected] : cases) {
    const Finished finished = check(image + " " + options);
    EXPECT_EQ(finished.exit_code, 2) << options << "\n" << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
    EXPECT_TRUE(contains(finished.output, expected)) << finished.output;
  }
  EXPECT_EQ(check(image + " --range 'im*:[0,1]' --range '*:[0,1]'").exit_code, 0);
  const Finished explained = run_in(folder_.path(), "explain " + image + " frist");
  EXPECT_TRUE(contains(explained.output, "did you mean 'first'?")) << explained.output;
}

TEST_F(Trust, OneOfSeveralModelsIsEnough) {
  const std::string a = model("a.txt", "(image: float32[n]) -> (y)", "y = Relu(image)");
  const std::string b = model("b.txt", "(sound: float32[m]) -> (y)", "y = Relu(sound)");
  const std::string both = a + " " + b + " ";
  EXPECT_EQ(check(both + "--range 'image:[0,1]' --range 'sound:[0,1]' --shape n=2 --shape m=3").exit_code, 0);
  for (const std::string wrong : {"--range 'img:[0,1]'", "--range 'q*:[0,1]'", "--shape k=2"}) {
    const Finished finished = check(both + wrong);
    EXPECT_EQ(finished.exit_code, 2) << wrong << "\n" << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
  }
}

TEST_F(Trust, SettingsThatNobodyReadsAreErrors) {
  const std::pair<std::string, std::string> cases[] = {
      {"[chek]\nselect = ['FN1']\n", "did you mean 'check'?"},
      {"fail-on = 'unknown'\n", "unknown key 'fail-on'"},
      {"[check]\nfail_on = 'unknown'\n", "did you mean 'fail-on'?"},
      {"[check]\nranges = ['img:[0,1]']\n", "no input or weight named 'img'"},
      {"[[check.accept]]\nrule = 'FN1O2'\n", "did you mean"},
  };
  for (const auto& [content, expected] : cases) {
    write_file_atomically(folder_.file("finity.toml"), content);
    const Finished finished = check(kRepaired + " --range 'x:[0,1]'");
    EXPECT_EQ(finished.exit_code, 2) << content << finished.output;
    EXPECT_TRUE(contains(finished.output, expected)) << finished.output;
  }
  // Settings are shared by many models: a pattern there need not fit each of them.
  write_file_atomically(folder_.file("finity.toml"), "[check]\nranges = ['img*:[0,1]']\n");
  EXPECT_EQ(check(kRepaired + " --range 'x:[0,1]'").exit_code, 0);
}

// ---- what a proof rests on ---------------------------------------------------------------

TEST_F(Trust, ProofsSayWhatTheyAssumeAndCover) {
  const std::string one = model("a.txt", "(x: float32[2]) -> (y)", "y = Relu(x)");
  const std::string three = model("b.txt", "(a: float32[2], b: float32[2], c: float32[2]) -> (y)", "y = Sum(a, b, c)");
  EXPECT_TRUE(contains(check(one).output, "all proved, assuming x in [-50, 50] (guessed); ")) << check(one).output;
  EXPECT_TRUE(contains(check(three).output, "all proved, assuming 3 guessed ranges; "));
  const std::string declared = check(one + " --range 'x:[0,1]'").output;
  EXPECT_TRUE(contains(declared, "all proved; ")) << declared;
  EXPECT_TRUE(contains(declared, "; forward pass, weights as in the file, for ONNX Runtime 1.30\n")) << declared;
  EXPECT_TRUE(contains(check(one + " --range 'x:[0,1]' --weights any").output, "any weights"));
  EXPECT_TRUE(contains(check(one + " --range 'x:[0,1]' --as float16").output, "forward pass as float16"));
  // All values of the type are no guess.
  const std::string small = model("c.txt", "(x: uint8[2], m: bool[2], n: int32[2]) -> (x, m, n)", "y = Not(m)");
  EXPECT_TRUE(contains(check(small).output, "all proved; ")) << check(small).output;
}

TEST_F(Trust, OutputsMayHoldWhatTheContractAllows) {
  const std::string file = model("a.txt", "(x: float32[2], z: float32[2]) -> (y)", "y = Add(x, z)");
  write_file_atomically(folder_.file("nan.toml"), "[inputs.x]\nrange = [0, 1]\nnan = true\n");
  const Finished allowed = check(file + " --contract nan.toml --range 'z:[0,1]'");
  EXPECT_EQ(allowed.exit_code, 0) << allowed.output;
  EXPECT_TRUE(contains(allowed.output, "output 'y' may hold NaN, as 'x' may")) << allowed.output;
  const Finished infinite = check(file + " --range 'x:[0,inf]' --range 'z:[0,1]'");
  EXPECT_TRUE(contains(infinite.output, "output 'y' may hold +Inf, as 'x' may")) << infinite.output;
  EXPECT_FALSE(contains(check(file + " --range '*:[0,1]'").output, "may hold"));
}

// ---- calm text -------------------------------------------------------------------------------

TEST_F(Trust, AnAssumptionIsPrintedOnce) {
  const std::string output = check(kBuggy).output;
  const std::size_t first = output.find("x: assumed [-50, 50]");
  ASSERT_NE(first, std::string::npos) << output;
  EXPECT_EQ(output.find("x: assumed", first + 1), std::string::npos) << output;
}

TEST_F(Trust, SeveralModelsEndInATableWorstFirst) {
  const std::string output =
      check(kRepaired + " " + kUnmodelled + " " + kBuggy + " missing.onnx --range 'x:[-1,1]'").output;
  const std::string table = output.substr(output.find("\nresult "));
  std::size_t last = 0;
  for (const std::string part : {"missing.onnx", "log_of_relu.txt", "custom_op.txt", "log_of_shifted_relu.txt"}) {
    const std::size_t at = table.find(part);
    ASSERT_NE(at, std::string::npos) << table;
    EXPECT_GT(at, last) << table;
    last = at;
  }
  EXPECT_TRUE(contains(table, "4 models: 1 clean, 1 with findings, 1 unknown or not checked, 1 failed")) << table;
}

TEST_F(Trust, QuietPrintsFindingsOnly) {
  EXPECT_EQ(check(kRepaired + " --quiet --range 'x:[-1,1]'").output, "");
  const std::string output = check(kBuggy + " -q").output;
  EXPECT_TRUE(contains(output, "possible FN102")) << output;
  EXPECT_FALSE(contains(output, "assumptions")) << output;
  EXPECT_FALSE(contains(output, "nodes modelled")) << output;
}

TEST_F(Trust, StatisticsCountRules) {
  const Finished finished = check(kBuggy + " " + kRepaired + " --statistics --range 'x:[-1,1]'");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.output, "1        -       1  FN102 log-of-nonpositive\n")) << finished.output;
  EXPECT_FALSE(contains(finished.output, "  path\n")) << finished.output;
}

TEST_F(Trust, ColoursWhenAskedFor) {
  EXPECT_FALSE(contains(check(kBuggy).output, "\x1b[")) << "no terminal";
  EXPECT_TRUE(contains(check(kBuggy + " --color always").output, "\x1b["));
  EXPECT_FALSE(contains(check(kBuggy + " --color never").output, "\x1b["));
  EXPECT_EQ(check(kBuggy + " --color sometimes").exit_code, 2);
}

TEST_F(Trust, WhatIsTakenForGrantedThoughItDoesNotHoldIsNoProof) {
  const Finished sound = check(kRepaired + " --range 'x:[-1,1]'");
  EXPECT_EQ(sound.exit_code, 0) << sound.output;
  const Finished compared = check(kRepaired + " --range 'x:[-1,1]' --compat debar");
  EXPECT_EQ(compared.exit_code, 1) << compared.output;
  EXPECT_EQ(compared.output.find("all proved"), std::string::npos) << compared.output;
}

}  // namespace
}  // namespace finity
