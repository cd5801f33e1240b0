// Programs that findings are shown with: they are built as their first line says, and run.
#include "fuzz/reproducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "fuzz/finding.h"
#include "fuzz/folder.h"
#include "fuzz/grower.h"
#include "tensor/convert.h"

namespace finity::fuzz {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Ended {
  int code = -1;
  std::string output = {};
};

struct ReproducerTest : testing::Test {
  fs::path folder = fs::path(testing::TempDir()) / ("finity_reproducer_" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  void write(const Finding& finding) const {
    for (const auto& [name, text] : reproducers(finding)) write(name, text);
  }
  Ended shell(const std::string& command) const {
    std::FILE* pipe = popen(("cd '" + folder.string() + "' && (" + command + ") 2>&1").c_str(), "r");
    Ended ended;
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) ended.output += static_cast<char>(c);
    ended.code = pclose(pipe);
    return ended;
  }
  // As the program's first line says, with the compiler of the project.
  Ended build_and_run() const {
    std::ifstream file(folder / "reproduce.cpp");
    std::string line;
    std::getline(file, line);
    constexpr std::string_view kStart = "// g++ ";
    EXPECT_TRUE(line.starts_with(kStart)) << line;
    return shell(FINITY_CXX " " + line.substr(kStart.size()));
  }
};

// 3 - |x| of {1, -2, 4} is {2, 1, -1}.
Finding small_finding(const std::string& family) {
  Rng rng(1);
  Grower grower(rng, 13, "test");
  const auto tensor = [](std::vector<double> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return from_elements<double>(DType::float32, {1, count}, values);
  };
  const std::string x = grower.add_input(tensor({1, -2, 4}));
  grower.add("Sub", {grower.add_constant(tensor({3, 3, 3})), grower.add("Abs", {x}).front()});
  Finding finding{.backend = {.family = family}, .sample = std::move(grower).finish()};
  finding.complaint = {.tensor = finding.sample.outputs.front(), .element = 2, .expected = point(-1), .observed = 5};
  return finding;
}

void expect_runs(const ReproducerTest& test, const std::string& family, Optimisation level) {
  try {
    Backend backend({.family = family});
    Finding finding = small_finding(family);
    finding.complaint.level = level;
    finding.script = script_of(backend, finding.sample);
    write_finding(finding, test.folder.string());
  } catch (const NotInstalled& missing) {
    GTEST_SKIP() << missing.what();
  }
  const Ended ended = test.build_and_run();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("as written: "));
  EXPECT_THAT(ended.output, testing::ContainsRegex("2[, ]+1[, ]+-1")) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("expected: element 2 of "));
}

TEST_F(ReproducerTest, OfOpenCvIsBuiltAndRuns) { expect_runs(*this, "opencv", Optimisation::all); }

TEST_F(ReproducerTest, OfLibTorchIsBuiltAndRuns) { expect_runs(*this, "torch-script", Optimisation::all); }

// Every kind of operand, and numbers that JavaScript and C++ have no digits for.
Finding with_every_type(const std::string& family) {
  Finding finding{.backend = {.family = family, .version = "1.2.3"}};
  finding.sample.steps = {{.op = "Identity", .inputs = {"a"}, .outputs = {"y"}}};
  finding.sample.outputs = {"y"};
  for (std::size_t i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::string || is_complex(dtype) || (!is_float(dtype) && !is_int(dtype) && dtype != DType::boolean))
      continue;
    finding.sample.inputs["of_" + std::string(name(dtype))] =
        from_elements<double>(dtype, {2}, std::vector<double>{0, 1});
  }
  finding.sample.inputs["scalar"] = from_elements<double>(DType::float32, {}, std::vector<double>{1e-30});
  finding.sample.inputs["none"] = from_elements<double>(DType::float32, {0, 2}, std::vector<double>{});
  finding.sample.inputs["odd"] =
      from_elements<double>(DType::float32, {3}, std::vector<double>{NAN, HUGE_VAL, -HUGE_VAL});
  finding.complaint = {.tensor = "y", .element = 0, .expected = point(1)};
  return finding;
}

// A library that gives back what it is given.
constexpr const char* kEcho = R"(
class Tensor {
  constructor(type, data, dims) {
    const size = dims.reduce((a, b) => a * b, 1);
    if (data.length !== size) throw new Error(`${type}: ${data.length} elements for ${dims}`);
    Object.assign(this, {type, data, dims});
  }
}
const create = async (file, options) => ({run: async (feeds) => {
  if (!file.endsWith('model.onnx') || !options.graphOptimizationLevel) throw new Error('called otherwise');
  return feeds;
}});
module.exports = {Tensor, InferenceSession: {create}};
)";

bool has_node() { return std::system("command -v node > /dev/null") == 0; }

TEST_F(ReproducerTest, OfOnnxRuntimeCallsTheLibrary) {
  if (!has_node()) GTEST_SKIP() << "node is not installed";
  write(with_every_type("ort"));
  write("node_modules/onnxruntime-node/index.js", kEcho);
  const Ended ended = shell("node reproduce.js");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, testing::Not(HasSubstr("error:")));
  for (const char* line : {"disabled of_int64 [2] 0 1", "basic of_bool [2] 0 1", "basic of_float16 [2] 0 15360",
                           "basic odd [3] NaN Infinity -Infinity", "basic scalar [] 1.0000000", "basic none [0,2] \n",
                           "expected: element 0 of y is 1"})
    EXPECT_THAT(ended.output, HasSubstr(line));
}

// With the libraries themselves, where `finity backends install` has put them.
TEST_F(ReproducerTest, OfInstalledJavaScriptLibrariesRuns) {
  int ran = 0;
  for (const char* family : {"ort", "tfjs-cpu", "tfjs-wasm"}) {
    const std::vector<BackendSpec> installed = installed_versions(family);
    if (installed.empty() || !has_node()) continue;
    Backend backend(installed.back());
    Finding finding = small_finding(family);
    finding.backend = installed.back();
    finding.script = script_of(backend, finding.sample);
    const fs::path here = folder / family;
    fs::create_directories(here);
    write_finding(finding, here.string());
    const std::string modules = install_folder(parse_backend(family).kind->install, installed.back().version);
    const Ended ended =
        shell("cd " + std::string(family) + " && NODE_PATH='" + modules + "/node_modules' node reproduce.js");
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("[1,3] 2 1 -1")) << family;
    ++ran;
  }
  if (ran == 0) GTEST_SKIP() << "neither ONNX Runtime nor TensorFlow.js is installed";
}

TEST_F(ReproducerTest, OfTensorFlowJsParses) {
  if (!has_node()) GTEST_SKIP() << "node is not installed";
  for (const char* family : {"tfjs-cpu", "tfjs-wasm"}) {
    for (const bool derivative : {false, true}) {
      Finding finding = with_every_type(family);
      finding.complaint.derivative = derivative;
      finding.script = "const inputs = [tf.tensor([1, 2])];\nconst model = (x) => ({y: tf.relu(x)});\n";
      write(finding);
      const Ended ended = shell("node --check reproduce.js");
      EXPECT_EQ(ended.code, 0) << family << ended.output;
    }
  }
}

}  // namespace
}  // namespace finity::fuzz
