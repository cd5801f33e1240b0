// Flags of Muffin's oracle beside the table of known faults. An average over a window that ceil_mode cuts off counts
// padding, but not what lies beyond it; ONNX Runtime divided by the whole window until 1.27.
#include "muffin/refound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "muffin/record.h"
#include "muffin/tables.h"

namespace finity::muffin {
namespace {

// Ones of 4 by 4 under windows of 3 by 3, step 2, padding of 1: the last window of each axis is cut to 2.
Model pool(const std::string& op) {
  Model model;
  model.sample.inputs.emplace("x", Tensor::of<float>(DType::float32, {1, 1, 4, 4}, std::vector<float>(16, 1)));
  fuzz::Step step{.op = op, .inputs = {"x"}, .outputs = {"y"}};
  const auto set = [&](const char* name, Attr value) { step.attrs.set(name, std::move(value)); };
  set("kernel_shape", std::vector<std::int64_t>{3, 3});
  set("strides", std::vector<std::int64_t>{2, 2});
  set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  set("ceil_mode", std::int64_t{1});
  if (op == "AveragePool") set("count_include_pad", std::int64_t{1});
  model.sample.steps = {step};
  model.sample.outputs = {"y"};
  model.layers.push_back({.spec = {.kind = "average_pooling2D"}, .from = {-1}, .output = "y", .dims = {1, 1, 3, 3}});
  return model;
}

// The averages: ones in the window over its places that are not beyond the padding.
constexpr float a = 4.0F / 9, b = 6.0F / 9, c = 2.0F / 6, d = 3.0F / 6;
const std::vector<float> kAverages = {a, b, c, b, 1, d, c, d, 1.0F / 4};
const std::vector<float> kByWholeWindow = {a, b, 2.0F / 9, b, 1, 3.0F / 9, 2.0F / 9, 3.0F / 9, 1.0F / 9};

Trace trace(std::string backend, const std::vector<float>& outputs) {
  Trace result{.backend = std::move(backend)};
  result.outputs.push_back(Tensor::of<float>(DType::float32, {1, 1, 3, 3}, outputs));
  return result;
}

// What becomes of the flag that a library's result raises beside LibTorch's right one.
Look look(const Model& model, const std::string& backend, const std::vector<float>& right,
          const std::vector<float>& other) {
  const std::vector<Trace> traces = {trace("torch", right), trace(backend, other)};
  const std::vector<Look> looks = look_into(model, traces, judge_traces(model, traces));
  EXPECT_EQ(looks.size(), 2U);
  if (looks.size() != 2) return {};
  EXPECT_EQ(looks[0].proof, Look::Proof::right) << "LibTorch's averages are right";
  EXPECT_TRUE(looks[0].faults.empty());
  return looks[1];
}

TEST(Refound, AWrongLayerOfAVersionThatHasTheFaultIsThatFault) {
  for (const char* version : {"ort@1.10.0", "ort@1.27.0"}) {
    const Look seen = look(pool("AveragePool"), version, kAverages, kByWholeWindow);
    EXPECT_EQ(seen.proof, Look::Proof::wrong);
    ASSERT_FALSE(seen.faults.empty()) << version;
    EXPECT_TRUE(std::ranges::any_of(seen.faults, [](const auto& f) { return f.text.starts_with("#16203"); }));
  }
}

TEST(Refound, AloneOfItsShapeItIsSureAndAmongSeveralItMayBe) {
  // Windows wholly in the padding are another fault of ceil_mode, which versions before 1.21 have as well.
  const Look later = look(pool("AveragePool"), "ort@1.27.0", kAverages, kByWholeWindow);
  ASSERT_EQ(later.faults.size(), 1U);
  EXPECT_TRUE(later.faults[0].sure);
  const Look earlier = look(pool("AveragePool"), "ort@1.10.0", kAverages, kByWholeWindow);
  ASSERT_EQ(earlier.faults.size(), 2U);
  EXPECT_FALSE(earlier.faults[0].sure || earlier.faults[1].sure);
}

TEST(Refound, OtherVersionsLibrariesAndOpsAreWrongWithoutBeingKnown) {
  for (const char* backend : {"ort@1.30.0", "tfjs-cpu@2.8.6"}) {
    const Look seen = look(pool("AveragePool"), backend, kAverages, kByWholeWindow);
    EXPECT_EQ(seen.proof, Look::Proof::wrong) << backend;
    EXPECT_TRUE(seen.faults.empty()) << backend;
  }
  // Of ones, every largest is one; no fault of that name divides.
  const Look largest = look(pool("MaxPool"), "ort@1.27.0", std::vector<float>(9, 1), kByWholeWindow);
  EXPECT_EQ(largest.proof, Look::Proof::wrong);
  EXPECT_TRUE(largest.faults.empty());
}

TEST(Refound, WhereNothingIsProvenAFaultOnlyMayBe) {
  // A model that ended the library's process has no results to hold against bounds.
  Model model = pool("AveragePool");
  model.sample.steps[0] = {.op = "BatchNormalization", .inputs = {"x"}, .outputs = {"y"}};
  const std::vector<Trace> traces = {trace("torch", kAverages),
                                     {.backend = "ort@1.14.0", .end = Trace::End::crashed, .message = "ended"}};
  const std::vector<Look> looks = look_into(model, traces, judge_traces(model, traces));
  ASSERT_EQ(looks.size(), 1U);
  EXPECT_EQ(looks[0].proof, Look::Proof::open);
  ASSERT_EQ(looks[0].faults.size(), 1U);
  EXPECT_FALSE(looks[0].faults[0].sure);
}

TEST(Refound, TheTableNamesAFaultOnceHoweverManyModelsShowIt) {
  const std::string folder = testing::TempDir() + "finity_refound";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    Record record(folder + "/muffin.sqlite", "two models", false);
    const Model model = pool("AveragePool");
    const std::vector<Trace> traces = {trace("torch", kAverages), trace("ort@1.27.0", kByWholeWindow)};
    for (int i = 0; i < 2; ++i) record.add(model, traces, judge_traces(model, traces), 0, {1, 1});
  }
  const std::vector<Table> tables = tables_of({{"E0", "layers", folder}});
  const Table& table = tables.back();
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ((std::vector<std::string>(table.rows[0].begin() + 2, table.rows[0].begin() + 8)),
            (std::vector<std::string>{"ort@1.27.0", "1", "1", "0", "0", "1"}));
  EXPECT_TRUE(table.rows[0][8].starts_with("#16203")) << table.rows[0][8];
  EXPECT_EQ((std::vector<std::string>(table.rows[1].begin() + 2, table.rows[1].end())),
            (std::vector<std::string>{"torch", "1", "0", "1", "0", "0", "", ""}));
}

}  // namespace
}  // namespace finity::muffin
