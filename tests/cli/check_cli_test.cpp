// finity check, baseline and rules as a whole: streams, exit codes, settings, accepted findings, Ctrl-C.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "cli/cli_support.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

using Json = nlohmann::json;

const std::string kBuggy = root_folder() + "/testdata/models/log_of_relu.txt";
const std::string kRepaired = root_folder() + "/testdata/models/log_of_shifted_relu.txt";
const std::string kUnmodelled = root_folder() + "/testdata/models/custom_op.txt";
const std::string kRange = " --range 'x:[-1,1]' ";

Json read_json(const std::string& path) { return Json::parse(read_text_file(path)); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Check, ExitCodesFollowFailOnWhateverTheFormat) {
  const TemporaryFolder folder;
  for (const std::string format : {"text", "json", "sarif", "github", "markdown"}) {
    const auto check = [&](const std::string& arguments) {
      return run_in(folder.path(), "check --format " + format + kRange + arguments).exit_code;
    };
    EXPECT_EQ(check(kBuggy), 1) << format;
    EXPECT_EQ(check(kBuggy + " --fail-on confirmed"), 0) << format;
    EXPECT_EQ(check(kRepaired), 0) << format;
    EXPECT_EQ(check(kUnmodelled), 1) << format;
    EXPECT_EQ(check(kUnmodelled + " --fail-on possible"), 0) << format;
    EXPECT_EQ(check(kBuggy + " missing.onnx"), 2) << format;
    EXPECT_EQ(check(kBuggy + " --ignore FN1"), 0) << format;
    EXPECT_EQ(check(kBuggy + " --select FN2"), 0) << format;
  }
}

// Sizes that no machine holds: one plain line for that model, and the others are checked.
TEST(Check, OneModelsFailureIsOneLine) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("huge.txt"),
                        "opset 17\ngraph g (x: float32[3000000000, 3000000000]) -> (y) { y = Exp(x) }\n");
  write_file_atomically(folder.file("grows.txt"),
                        "opset 17\ngraph g (n: int64[1]) -> (y) { c = ConstantOfShape(n)  y = Exp(c) }\n");
  for (const std::string command : {"check huge.txt grows.txt --verify 2 --range 'n:[1e15,1e16]' ", "run huge.txt "}) {
    const Finished finished = run_in(folder.path(), command + (command.starts_with("check") ? kRepaired : ""));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(contains(finished.output, "finity: huge.txt: ")) << finished.output;
    EXPECT_FALSE(contains(finished.output, "internal error")) << finished.output;
    EXPECT_FALSE(contains(finished.output, "vector::")) << finished.output;
    EXPECT_EQ(contains(finished.output, "all proved"), command.starts_with("check")) << finished.output;
  }
}

TEST(Check, SelectedRulesAreNotEverything) {
  const Finished selected = run("check examples/naive_softmax.txt --range 'x:[-100,100]' --select FN1");
  EXPECT_TRUE(contains(selected.output, "all proved of the selected rules, if nothing fails at the "))
      << selected.output;
  const Finished none = run("check " + kBuggy + kRange + " --select FN2");
  EXPECT_TRUE(contains(none.output, "no site of the selected rules, ")) << none.output;
  EXPECT_FALSE(contains(none.output, "all proved")) << none.output;
  const Finished everything = run("check " + kRepaired + kRange);
  EXPECT_TRUE(contains(everything.output, "all proved; ")) << everything.output;
}

TEST(Check, WritesSeveralStreamsAtOnce) {
  const TemporaryFolder folder;
  const Finished finished = run_in(folder.path(), "check " + kBuggy + kRange +
                                                      "-o a.sarif -o b.json -o c.md -o d.txt --sarif-output e"
                                                      " --json-output f --markdown-output g");
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(contains(finished.output, "possible FN102")) << finished.output;
  EXPECT_EQ(read_json(folder.file("a.sarif")).at("version"), "2.1.0");
  EXPECT_EQ(read_json(folder.file("b.json")).at("schema"), "finity-check/1");
  EXPECT_TRUE(read_text_file(folder.file("c.md")).starts_with("## finity check"));
  EXPECT_EQ(read_text_file(folder.file("d.txt")), finished.output);
  EXPECT_EQ(read_text_file(folder.file("e")), read_text_file(folder.file("a.sarif")));
  EXPECT_EQ(read_json(folder.file("f")).at("schema"), "finity-check/1");
  EXPECT_EQ(read_text_file(folder.file("g")), read_text_file(folder.file("c.md")));
}

TEST(Check, OneOutputTakesTheFormat) {
  const TemporaryFolder folder;
  const Finished finished = run_in(folder.path(), "check --format sarif -o findings.out " + kBuggy + kRange);
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_EQ(read_json(folder.file("findings.out")).at("version"), "2.1.0");
  EXPECT_EQ(run_in(folder.path(), "check -o findings.xyz " + kBuggy).exit_code, 2);
  EXPECT_EQ(run_in(folder.path(), "check -o no/such/folder/x.json " + kRepaired + kRange).exit_code, 2);
  EXPECT_EQ(run_in(folder.path(), "check -o /dev/null --format json " + kRepaired + kRange).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Check, ManyModelsComeInOrder) {
  const TemporaryFolder folder;
  const std::string models = kBuggy + " " + kRepaired + " missing.onnx " + kUnmodelled;
  const Finished one = run_in(folder.path(), "check -j 1 " + models + kRange + "--json-output one.json");
  const Finished many = run_in(folder.path(), "check -j 4 " + models + kRange + "--json-output many.json");
  EXPECT_EQ(one.exit_code, 2);
  const auto before_times = [](const std::string& text) { return text.substr(0, text.find("\nresult ")); };
  EXPECT_EQ(before_times(one.output), before_times(many.output));
  const Json json = read_json(folder.file("many.json"));
  ASSERT_EQ(json.at("models").size(), 4U);
  EXPECT_EQ(json.at("models")[0].at("model"), kBuggy);
  EXPECT_EQ(json.at("models")[0].at("findings").size(), 1U);
  EXPECT_TRUE(contains(json.at("models")[2].at("error"), "missing.onnx"));
  EXPECT_EQ(json.at("models")[3].at("model"), kUnmodelled);
  EXPECT_EQ(json.at("exit_code"), 2);
}

TEST(Check, SettingsAreFoundUpwardAndTheCommandLineWins) {
  const TemporaryFolder folder;
  const std::string inner = folder.file("a/b");
  std::filesystem::create_directories(inner);
  write_file_atomically(folder.file("finity.toml"),
                        "[check]\nranges = ['x:[1,2]']\nfail-on = 'unknown'\nignore = ['FN2']\n");
  EXPECT_EQ(run_in(inner, "check " + kBuggy).exit_code, 0);
  EXPECT_EQ(run_in(inner, "check " + kBuggy + kRange).exit_code, 1);
  EXPECT_EQ(run_in(inner, "check " + kBuggy + " --no-config").exit_code, 1);
  EXPECT_EQ(run_in(inner, "check " + kUnmodelled).exit_code, 1);
  EXPECT_EQ(run_in(inner, "check " + kUnmodelled + " --fail-on possible").exit_code, 0);
  EXPECT_TRUE(contains(run_in(inner, "check " + kBuggy).output, "settings from ../../finity.toml"));
}

TEST(Check, BadSettingsAreOneLineAndExitTwo) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[check]\nselct = []\n", "finity.toml:2: unknown key 'selct'"},
      {"[check]\nselect = ['FN8']\n", "finity.toml:2: select: no rule is named 'FN8'"},
      {"[check]\nselect = 3\n", "finity.toml:2: 'select' must be a list of strings"},
      {"[check]\n\nfail-on = 'never'\n", "finity.toml:3: 'fail-on' must be one of confirmed, possible, unknown"},
      {"[check]\nmax-findings = -1\n", "finity.toml:2: 'max-findings' must not be negative"},
      {"[check\n", "finity.toml:1: "},
      {"[[check.accept]]\nnode = 'x'\n", "finity.toml:1: an entry of accept needs a rule"},
      {"check = 3\n", "finity.toml:1: 'check' must be a table"},
      {"[check]\nranges = ['x:[2,1]']\n", "finity.toml: range 'x:[2,1]'"},
      {"[check]\ncontract = 'none.toml'\n", "none.toml"},
      {"[check]\nbaseline = 'none.json'\n", "none.json"},
  };
  for (const auto& [content, expected] : cases) {
    write_file_atomically(folder.file("finity.toml"), content);
    const Finished finished = run_in(folder.path(), "check " + kBuggy);
    EXPECT_EQ(finished.exit_code, 2) << content;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
    EXPECT_TRUE(contains(finished.output, expected)) << finished.output;
  }
}

TEST(Check, BadOptionsExitTwo) {
  for (const std::string bad :
       {"--select FN8", "--ignore nothing", "--as int8", "--as float99", "--range x", "--fail-on never",
        "--tensor cube", "--baseline missing.json", "--config missing.toml", "--shape x:9", "--contract missing.toml",
        "--verify 3 --accumulate same", "--verify -1"}) {
    const Finished finished = run("check " + kBuggy + " " + bad);
    EXPECT_EQ(finished.exit_code, 2) << bad << "\n" << finished.output;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
  }
}

Tensor four_floats(double a, double b, double c, double d) {
  return from_elements<double>(DType::float32, {4}, std::vector<double>{a, b, c, d});
}

TEST(Check, ValuesOfARealRunAreCompared) {
  const TemporaryFolder folder;
  const auto record = [&](const std::string& file, double y) {
    write_file_atomically(folder.file(file), write_npz({{"x", four_floats(-1, 0, 0.5, 1)},
                                                        {"r", four_floats(0, 0, 0.5, 1)},
                                                        {"y", four_floats(-6, -6, y, 0)},
                                                        {"old", four_floats(0, 0, 0, 0)}}));
  };
  record("good.npz", -0.6);
  record("bad.npz", 7);
  const Finished good = run_in(folder.path(), "check " + kRepaired + kRange + "--values good.npz --values good.npz");
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_TRUE(contains(good.output,
                       "values: 2 runs, 4 tensors (16 elements) in their ranges; 1 name not in the model"
                       " (old)\n"))
      << good.output;
  const Finished bad = run_in(folder.path(), "check " + kRepaired + kRange + "--values good.npz --values bad.npz");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(std::ranges::count(bad.output, '\n'), 1) << bad.output;
  EXPECT_TRUE(contains(bad.output,
                       "verification failed: bad.npz: 1 recorded tensor outside its range; 'y' of node 'log'"
                       " (Log): element [2] is 7, outside [-6.9"))
      << bad.output;
  const Finished other = run_in(folder.path(), "check " + kRepaired + " --range 'x:[0,1]' --values good.npz");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(contains(other.output,
                       "input 'x' element [0] is -1, outside [0, 1]: the values were recorded outside the"
                       " assumptions"))
      << other.output;
}

TEST(Check, ValuesInFoldersOfTensors) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, const Tensor& tensor, const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(file)).parent_path());
    write_file_atomically(folder.file(file), write_tensor_proto(tensor, name));
  };
  // Numbers tell what names do not.
  write("a/test_data_set_0/input_0.pb", four_floats(0, 0, 0, 1), "");
  write("a/test_data_set_0/output_0.pb", four_floats(-6, -6, -6, 0), "other");
  write("a/test_data_set_1/input_0.pb", four_floats(0, 0, 0, 1), "x");
  write("a/test_data_set_1/input_r.pb", four_floats(0, 0, 0, 1), "r");
  const Finished finished = run_in(folder.path(), "check " + kRepaired + kRange + "--values a");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(contains(finished.output, "values: 2 runs, 2 tensors (8 elements) in their ranges\n")) << finished.output;
  const Finished one = run_in(folder.path(), "check " + kRepaired + kRange + "--values a/test_data_set_1");
  EXPECT_TRUE(contains(one.output, "values: 1 run, 1 tensor (4 elements) in its range\n")) << one.output;
}

TEST(Check, BadValuesAreOneLineAndExitTwo) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("empty"));
  std::filesystem::create_directories(folder.file("broken"));
  write_file_atomically(folder.file("broken/0.pb"), "no tensor");
  write_file_atomically(folder.file("text.npz"), "no archive");
  write_file_atomically(folder.file("strange.npz"), write_npz({{"p", four_floats(0, 0, 0, 0)}}));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"missing.npz", "missing.npz"},
      {"empty", "empty: holds no .npz or .pb files"},
      {"broken", "broken/0.pb: "},
      {"text.npz", "text.npz: is neither an .npz file nor a folder"},
      {"strange.npz", "strange.npz: none of its 1 names is in the model"},
  };
  for (const auto& [path, expected] : cases) {
    const Finished finished = run_in(folder.path(), "check " + kRepaired + kRange + "--values " + path);
    EXPECT_EQ(finished.exit_code, 2) << path;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
    EXPECT_TRUE(contains(finished.output, expected)) << finished.output;
  }
  EXPECT_EQ(run_in(folder.path(), "check " + kRepaired + " " + kBuggy + " --values strange.npz").exit_code, 2);
}

TEST(Check, EntriesOfTheSettingsAccept) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("finity.toml"),
                        "[[check.accept]]\nrule = 'FN102'\nnode = 'lo*'\nreason = 'masked later'\n"
                        "[[check.accept]]\nrule = 'FN104'\n");
  const Finished finished = run_in(folder.path(), "check " + kBuggy + kRange + "--json-output out.json");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(contains(finished.output, "finity: warning: finity.toml:5: ")) << finished.output;
  const Json finding = read_json(folder.file("out.json")).at("models")[0].at("findings")[0];
  EXPECT_EQ(finding.at("accepted").at("by"), "configuration");
  EXPECT_EQ(finding.at("accepted").at("why"), "finity.toml:1: masked later");
}

TEST(Check, BaselinesAcceptWhatIsKnown) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_in(folder.path(), "baseline " + kBuggy + kRange + "-o known.json").exit_code, 0);
  const Finished known = run_in(folder.path(), "check " + kBuggy + kRange + "--baseline known.json");
  EXPECT_EQ(known.exit_code, 0) << known.output;
  EXPECT_FALSE(contains(known.output, "warning")) << known.output;
  // Another model of another name is not covered by it.
  EXPECT_EQ(run_in(folder.path(), "check " + kUnmodelled + " --fail-on unknown --baseline known.json").exit_code, 1);
  // The finding is gone: the entry is told.
  const Finished gone = run_in(folder.path(), "check " + kBuggy + " --range 'x:[1,2]' --baseline known.json");
  EXPECT_EQ(gone.exit_code, 0);
  EXPECT_TRUE(contains(gone.output, "no longer found: FN102 at 'log' of ")) << gone.output;
  // Nothing is written when a model cannot be checked.
  EXPECT_EQ(run_in(folder.path(), "baseline missing.onnx -o other.json").exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder.file("other.json")));
  for (const std::string bad : {"", "{}", "[1]", "{\"schema\":\"finity-baseline/9\"}"}) {
    write_file_atomically(folder.file("bad.json"), bad);
    const Finished finished = run_in(folder.path(), "check " + kBuggy + " --baseline bad.json");
    EXPECT_EQ(finished.exit_code, 2) << bad;
    EXPECT_EQ(std::ranges::count(finished.output, '\n'), 1) << finished.output;
  }
}

TEST(Check, LimitsEndWithAnUnknownFinding) {
  const TemporaryFolder folder;
  const std::string command = "check " + kRepaired + kRange + "--fail-on unknown ";
  EXPECT_EQ(run_in(folder.path(), command).exit_code, 0);
  const Finished stopped = run_in(folder.path(), command + "--memory-limit 0.0001");
  EXPECT_EQ(stopped.exit_code, 1) << stopped.output;
  EXPECT_TRUE(contains(stopped.output, "unknown FN903 stopped-at-a-limit")) << stopped.output;
  EXPECT_TRUE(contains(stopped.output, "(stopped at a limit)")) << stopped.output;
  const Finished refused = run_in(folder.path(), command + "--time-limit -1");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.output, "--time-limit: '-1' is not a number of at least 0")) << refused.output;
}

TEST(Check, CtrlCKeepsWhatIsFinished) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("m"), read_text_file(kBuggy));
  std::string models;
  for (int i = 0; i < 60'000; ++i) models += " m";
  const auto interrupted_after = [&](const std::string& seconds) {
    const std::string command = "cd '" + folder.path() + "' && timeout --preserve-status -s INT " + seconds +
                                " '" FINITY_PROGRAM "' check -j 2 --json-output out.json" + models + " >out.txt 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  // On a busy machine the signal may come before the program has read its arguments: later, then.
  constexpr int kKilledBySignal = 128 + SIGINT;
  int code = kKilledBySignal;
  for (const char* seconds : {"0.5", "1", "2", "4", "8"}) {
    if (code == kKilledBySignal) code = interrupted_after(seconds);
  }
  EXPECT_EQ(code, 2);
  const Json json = read_json(folder.file("out.json"));
  EXPECT_TRUE(json.at("interrupted"));
  EXPECT_GT(json.at("models").size(), 0U);
  EXPECT_LT(json.at("models").size(), 60'000U);
  EXPECT_TRUE(contains(read_text_file(folder.file("out.txt")), "finity: interrupted"));
}

TEST(Check, ConversionsNameTheNodesToKeep) {
  const TemporaryFolder folder;
  const std::string model = root_folder() + "/testdata/models/large_sum.txt";
  const std::string range = " --range 'x:[-100,100]' ";
  EXPECT_EQ(run_in(folder.path(), "check " + model + range).exit_code, 0);
  const Finished half = run_in(folder.path(), "check --as float16 " + model + range + "--json-output out.json");
  EXPECT_EQ(half.exit_code, 1) << half.output;
  const Json keep = read_json(folder.file("out.json")).at("models")[0].at("keep_nodes");
  EXPECT_TRUE(keep.at("proved")) << keep;
  EXPECT_FALSE(keep.at("nodes").empty());
  for (const Json& node : keep.at("nodes")) EXPECT_NE(node, "squash");
}

TEST(Rules, ThePageIsUpToDate) {
  const std::string path = root_folder() + "/docs/rules.md";
  const Finished finished = run("rules --markdown");
  EXPECT_EQ(finished.exit_code, 0);
  if (std::getenv("FINITY_UPDATE") != nullptr) write_file_atomically(path, finished.output);
  else EXPECT_EQ(finished.output, read_text_file(path)) << "finity rules --markdown > docs/rules.md";
}

}  // namespace
}  // namespace finity
