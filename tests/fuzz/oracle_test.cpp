// The oracle against the reference: what is right is inside, what is plainly wrong is not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "fuzz/backward.h"
#include "fuzz/beyond.h"
#include "fuzz/box.h"
#include "fuzz/generate.h"
#include "fuzz/laws.h"
#include "fuzz/nnsmith.h"
#include "fuzz/reduce.h"
#include "fuzz/spoil.h"
#include "tensor/convert.h"
#include "types/graph_writer.h"

namespace finity::fuzz {
namespace {

constexpr std::uint64_t kModels = 300;

std::vector<Generated> some(std::uint64_t count) {
  std::vector<Generated> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(generate(3, i, {.invalid = false}));
  std::erase_if(all, [](const Generated& one) { return one.sample.steps.empty(); });
  return all;
}

struct Seen {
  int right = 0, elements = 0, noticed = 0, spoilt = 0, decided = 0, tensors = 0;
};

void look_at(const Graph& model, const Types& types, const Node& node, std::span<const Datum> inputs,
             std::span<const Datum> outputs, Seen& seen) {
  std::vector<Box> operands;
  for (const Datum& datum : inputs) operands.push_back(datum.tensor() == nullptr ? Box() : point_box(*datum.tensor()));
  const std::vector<Box> boxes = enclose(model, types, node, operands);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].tensor() == nullptr) continue;
    ++seen.tensors;
    if (!boxes[k].decided()) continue;
    ++seen.decided;
    const std::vector<double> values = elements<double>(*outputs[k].tensor());
    double largest = 0;
    for (const double x : values) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Range& cell = boxes[k].cells[i];
      if (cell.nan || cell.pinf || cell.ninf) continue;
      ++seen.elements;
      EXPECT_TRUE(cell.contains(values[i])) << node.op_type << " " << values[i] << " not in " << to_string(cell);
      ++seen.spoilt;
      seen.noticed += cell.contains(values[i] + 0.01 * largest + 1) ? 0 : 1;
    }
  }
}

TEST(Oracle, HoldsWhatTheReferenceComputesAndLittleElse) {
  Seen seen;
  for (const Generated& one : some(kModels)) {
    const Graph model = graph(one.sample);
    const Types types = infer_types(model);
    RunOptions options;
    options.watch = [&](const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
      look_at(model, types, node, inputs, outputs, seen);
    };
    run_reference(model, inputs_of(one.sample), options);
  }
  EXPECT_GT(seen.elements, 10000);
  EXPECT_GT(seen.noticed, 0.97 * seen.spoilt);  // an error of one or more is seen
  EXPECT_GT(seen.decided, 0.9 * seen.tensors);
}

// ---- operands that are not finite ------------------------------------------

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

Sample one_step(const char* op, std::vector<std::vector<double>> operands, Attrs attrs = {},
                DType dtype = DType::float32) {
  Sample sample{.opset = 13, .steps = {{.op = op, .outputs = {"y"}, .attrs = std::move(attrs)}}, .outputs = {"y"}};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    sample.inputs[name] = from_elements<double>(dtype, {static_cast<std::int64_t>(operands[i].size())}, operands[i]);
    sample.steps[0].inputs.push_back(name);
  }
  return sample;
}

// Which of these are no results of the step, as written; empty where nothing is claimed.
std::vector<bool> wrong(const Sample& sample, const std::vector<double>& results) {
  const Graph model = graph(sample);
  std::vector<Box> operands;
  for (const std::string& name : sample.steps[0].inputs) operands.push_back(point_box(sample.inputs.at(name)));
  const Box box = enclose(model, infer_types(model), model.nodes().front(), operands)[0];
  std::vector<bool> found;
  for (std::size_t i = 0; i < box.cells.size(); ++i)
    found.push_back(box.claims(i) && !box.cells[i].contains(results[i]));
  return found;
}

using Flags = std::vector<bool>;

TEST(OracleBeyondFinite, FunctionsKeepNanAndHaveLimits) {
  EXPECT_EQ(wrong(one_step("Erf", {{kNan, 0.5, kInfinity}}), {1, kNan, 0.5}), Flags({true, true, true}));
  EXPECT_EQ(wrong(one_step("Erf", {{kNan, 0.5, kInfinity}}), {kNan, 0.5204999, 1}), Flags({false, false, false}));
  EXPECT_EQ(wrong(one_step("Exp", {{kNan, -kInfinity, kInfinity}}), {0, kNan, 1e38}), Flags({true, true, true}));
  EXPECT_EQ(wrong(one_step("Exp", {{kNan, -kInfinity, kInfinity}}), {kNan, 0, kInfinity}),
            Flags({false, false, false}));
}

TEST(OracleBeyondFinite, ArithmeticIsThatOfIeee) {
  const Sample sum = one_step("Add", {{kInfinity, kInfinity, kNan, 1}, {1, -kInfinity, 1, 1}});
  EXPECT_EQ(wrong(sum, {1, 0, 1, kNan}), Flags({true, true, true, true}));
  EXPECT_EQ(wrong(sum, {kInfinity, kNan, kNan, 2}), Flags({false, false, false, false}));
  EXPECT_EQ(wrong(one_step("Div", {{1, 1}, {kInfinity, 2}}), {1, 0.5}), Flags({true, false}));
}

TEST(OracleBeyondFinite, WhatComparesWithNanIsLeftOpen) {
  // A maximum may pass over NaN or not; the other results stay what they are.
  EXPECT_EQ(wrong(one_step("Relu", {{kNan, -1, kInfinity}}), {0, kNan, 0}), Flags({false, true, true}));
  EXPECT_EQ(wrong(one_step("Max", {{kNan, 1}, {5, 2}}), {5, 1}), Flags({false, true}));
  Attrs window;
  window.set("kernel_shape", std::vector<std::int64_t>{2});
  Sample pool = one_step("MaxPool", {{kNan, 1, 2, 3}}, window);
  pool.inputs["x0"] = from_elements<double>(DType::float32, {1, 1, 4}, std::vector<double>{kNan, 1, 2, 3});
  EXPECT_EQ(wrong(pool, {1, kNan, 2}), Flags({false, true, true}));
}

TEST(OracleBeyondFinite, NothingIsClaimedOfTheOrderOfNan) {
  Attrs axis;
  axis.set("axis", std::int64_t{0});
  EXPECT_EQ(wrong(one_step("ArgMax", {{kNan, kNan, 1}}, axis), {1}), Flags({false}));
  EXPECT_EQ(wrong(one_step("ArgMax", {{-kInfinity, 2, 1}}, axis), {2}), Flags({true}));
}

TEST(OracleBeyondFinite, WhatAnIntegerCannotHoldIsLeftOpen) {
  Attrs to;
  to.set("to", static_cast<std::int64_t>(6));
  const Sample cast = one_step("Cast", {{kNan, kInfinity, 2.5}}, to);
  EXPECT_EQ(wrong(cast, {7, 7, 7}), Flags({false, false, true}));
}

TEST(OracleBeyondFinite, SumsOfNothingButMinusInfinityHaveALogarithm) {
  Attrs flat;
  flat.set("keepdims", std::int64_t{1});
  const Sample sum = one_step("ReduceLogSumExp", {{-kInfinity, -kInfinity}}, flat);
  EXPECT_EQ(wrong(sum, {kNan}), Flags({true}));
  EXPECT_EQ(wrong(sum, {-kInfinity}), Flags({false}));
}

// Too large a number is not one that was given: what comes of it may be anything.
TEST(OracleBeyondFinite, NothingIsClaimedOfWhatOverflows) {
  EXPECT_EQ(wrong(one_step("Mul", {{1e30, kNan}, {1e30, 1}}), {5, kNan}), Flags());
}

TEST(OracleBeyondFinite, HoldsWhatTheReferenceComputes) {
  Rng rng(11);
  int models = 0, claims = 0, special = 0;
  for (const Generated& one : some(2 * kModels)) {
    const std::optional<Sample> changed = with_not_finite(one.sample, rng);
    if (!changed) continue;
    ++models;
    const Graph model = graph(*changed);
    const Types types = infer_types(model);
    RunOptions options;
    options.watch = [&](const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
      std::vector<Box> operands;
      for (const Datum& datum : inputs)
        operands.push_back(datum.tensor() == nullptr ? Box() : point_box(*datum.tensor()));
      const std::vector<Box> boxes = enclose(model, types, node, operands);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].tensor() == nullptr || !boxes[k].decided()) continue;
        const std::vector<double> values = elements<double>(*outputs[k].tensor());
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (!boxes[k].claims(i)) continue;
          ++claims;
          special += boxes[k].holds_more(i) ? 1 : 0;
          EXPECT_TRUE(boxes[k].cells[i].contains(values[i]))
              << node.op_type << " " << values[i] << " not in " << to_string(boxes[k].cells[i]);
        }
      }
    };
    run_reference(model, inputs_of(*changed), options);
  }
  EXPECT_GT(models, 200);
  EXPECT_GT(claims, 10000);
  EXPECT_GT(special, 200);
}

// Zeros that a Pad put there are elements: -1 is not their maximum, whatever the last bits are.
TEST(Oracle, IsCloseForBoxesToo) {
  Rng rng(1);
  Grower grower(rng, 17, "test");
  const std::string x = grower.add_input(from_elements<double>(DType::float32, {1, 1, 2}, std::vector<double>{-1, -5}));
  const std::string pads = grower.add_constant(Tensor::vector_of(std::vector<std::int64_t>{0, 0, 1, 0, 0, 1}));
  Attrs attrs;
  attrs.set("kernel_shape", std::vector<std::int64_t>{2});
  grower.add("MaxPool", grower.add("Pad", {x, pads}), attrs);
  const Sample sample = std::move(grower).finish();
  const auto judged = [&](std::vector<double> values) {
    Counts counts;
    const Tensor tensor = from_elements<double>(DType::float32, {1, 1, 3}, values);
    return compare_with_boxes(sample, {{sample.outputs[0], tensor}}, "test", counts).size();
  };
  EXPECT_EQ(judged({0, -1, 0}), 0U);
  EXPECT_EQ(judged({-1, -1, -5}), 1U);
  EXPECT_EQ(judged({0, -5, 0}), 1U);
}

// One row of numbers resized with this scale.
Sample resized(double scale, const char* mode, const char* nearest) {
  Rng rng(1);
  Grower grower(rng, 17, "test");
  const std::string x =
      grower.add_input(from_elements<double>(DType::float32, {1, 1, 1, 6}, std::vector<double>{0, 10, 20, 30, 40, 50}));
  const std::string scales =
      grower.add_constant(from_elements<double>(DType::float32, {4}, std::vector<double>{1, 1, 1, scale}));
  Attrs attrs;
  attrs.set("mode", std::string(mode));
  attrs.set("nearest_mode", std::string(nearest));
  grower.add("Resize", {x, "", scales}, attrs);
  return std::move(grower).finish();
}

std::size_t complaints_of(const Sample& sample, std::vector<double> values) {
  Counts counts;
  const Dims dims = {1, 1, 1, static_cast<std::int64_t>(values.size())};
  const Tensor tensor = from_elements<double>(DType::float32, dims, values);
  return compare_with_boxes(sample, {{sample.outputs[0], tensor}}, "test", counts).size();
}

TEST(Oracle, JudgesResizedRowsElementByElement) {
  // Places 0.5, 2.5 and 4.5 lie between two elements, for every library the same two: the mode says which.
  EXPECT_EQ(complaints_of(resized(0.5, "nearest", "floor"), {0, 20, 40}), 0U);
  EXPECT_EQ(complaints_of(resized(0.5, "nearest", "floor"), {0, 30, 40}), 1U);
  EXPECT_EQ(complaints_of(resized(0.5, "nearest", "ceil"), {10, 30, 50}), 0U);
  EXPECT_EQ(complaints_of(resized(0.5, "linear", "floor"), {5, 25, 45}), 0U);
  EXPECT_EQ(complaints_of(resized(0.5, "linear", "floor"), {5, 25.1, 45}), 1U);
  // Places 1 / 0.6F * (i + 0.5) - 0.5 are 1/3, 2 and 11/3, and 2 may come out a little less.
  EXPECT_EQ(complaints_of(resized(0.6, "nearest", "floor"), {0, 20, 30}), 0U);
  EXPECT_EQ(complaints_of(resized(0.6, "nearest", "floor"), {0, 10, 30}), 0U);
  EXPECT_EQ(complaints_of(resized(0.6, "nearest", "floor"), {10, 20, 30}), 1U);
}

TEST(Generator, SpoiltCallsAreRefusedByTheReference) {
  int seen = 0;
  for (const Generated& one : some(kModels)) {
    Rng rng(7);
    const std::optional<Sample> changed = spoilt(one.sample, rng);
    if (!changed) continue;
    ++seen;
    EXPECT_THROW(
        {
          const Graph model = graph(*changed);
          infer_types(model);
          run_reference(model, inputs_of(*changed));
        },
        Error);
  }
  EXPECT_GT(seen, 20);
}

TEST(Generator, DrawsTheEndsOfIntegerTypes) {
  Rng rng(3);
  Grower grower(rng, 17, "test");
  const Tensor narrow = grower.draw(DType::int8, {400}, ValueClass::ends);
  const Tensor wide = grower.draw(DType::int32, {400}, ValueClass::ends);
  const std::vector<double> small = elements<double>(narrow), large = elements<double>(wide);
  for (const double end : {-128.0, 127.0, -127.0}) EXPECT_NE(std::ranges::find(small, end), small.end()) << end;
  for (const double end : {-0x1p31, 0x1p31 - 1, 0x1p16, -1.0, 0.0})
    EXPECT_NE(std::ranges::find(large, end), large.end()) << end;
}

TEST(Generator, IsAFunctionOfItsSeed) {
  std::set<std::string> ops, models;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Generated first = generate(9, i, {}), second = generate(9, i, {});
    ASSERT_EQ(write_onnx(graph(first.sample)), write_onnx(graph(second.sample))) << i;
    models.insert(write_onnx(graph(first.sample)));
    for (const Step& step : first.sample.steps) ops.insert(step.op);
  }
  EXPECT_GT(models.size(), 95U);
  EXPECT_GT(ops.size(), 50U);
}

// Every pair of an op's attributes that may go together comes up in a few hundred draws.
TEST(Generator, SweepsPairsOfAttributes) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (std::uint64_t i = 0; i < 250; ++i) {
    for (const Step& step : generate(3, i, {.ops = {"MaxPool"}, .invalid = false}).sample.steps) {
      if (step.op != "MaxPool") continue;
      for (const auto& [first, unused] : step.attrs) {
        for (const auto& [second, also_unused] : step.attrs) pairs.emplace(first, second);
      }
    }
  }
  for (const char* first : {"ceil_mode", "dilations", "strides", "kernel_shape"}) {
    for (const char* second : {"auto_pad", "pads", "strides", "dilations", "ceil_mode"})
      EXPECT_TRUE(pairs.contains({first, second})) << first << " with " << second;
  }
}

// Models of five ops that the reference runs, some of them put in before what was there.
TEST(NnSmith, SamplesAreLegalSmallAndAFunctionOfTheSeed) {
  std::size_t models = 0, steps = 0, before = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Generated one = nnsmith_sample(4, i);
    if (one.sample.steps.empty()) continue;
    ++models;
    steps += one.sample.steps.size();
    EXPECT_EQ(write_onnx(graph(one.sample)), write_onnx(graph(nnsmith_sample(4, i).sample)));
    EXPECT_NO_THROW(run_reference(graph(one.sample), inputs_of(one.sample))) << i;
    // Operands of what was put in before carry its mark.
    before += std::ranges::any_of(one.sample.steps.front().inputs,
                                  [](const std::string& name) { return name.find('b') != std::string::npos; });
  }
  EXPECT_GT(models, 50U);
  EXPECT_GT(steps, 3 * models);
  EXPECT_GT(before, models / 3);
}

TEST(Generator, MakesOnlySamplesWithAnAskedOp) {
  for (std::uint64_t i = 0; i < 30; ++i) {
    const Generated one = generate(1, i, {.ops = {"Conv", "MaxPool"}});
    ASSERT_FALSE(one.sample.steps.empty());
    EXPECT_TRUE(
        std::ranges::any_of(one.sample.steps, [](const Step& s) { return s.op == "Conv" || s.op == "MaxPool"; }));
  }
}

TEST(Laws, LeaveTheOutputsWhatTheyAre) {
  std::set<std::string_view> applied;
  Rng rng(4);
  const std::vector<Generated> all = some(120);
  for (int round = 0; round < 6; ++round) {
    for (const Generated& one : all) {
      const std::optional<Changed> changed = apply_law(one.sample, rng);
      if (!changed) continue;
      applied.insert(changed->law);
      const Graph before = graph(one.sample), after = graph(changed->sample);
      const std::vector<Datum> x = run_reference(before, inputs_of(one.sample));
      const std::vector<Datum> y = run_reference(after, inputs_of(changed->sample));
      ASSERT_LE(x.size(), y.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::vector<double> a = elements<double>(*x[i].tensor()), b = elements<double>(*y[i].tensor());
        ASSERT_EQ(x[i].tensor()->dims(), y[i].tensor()->dims());
        for (std::size_t k = 0; k < a.size(); ++k)
          EXPECT_TRUE(a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])))
              << changed->law << ": " << a[k] << " " << b[k];
      }
    }
  }
  EXPECT_EQ(applied.size(), laws().size());
}

TEST(Reducer, LeavesWhatTheFaultNeeds) {
  const auto pad_then_pool = [](const Sample& sample) {
    for (const Step& pool : sample.steps) {
      for (const Step& pad : sample.steps) {
        if (pool.op == "MaxPool" && pad.op == "Pad" && pool.inputs[0] == pad.outputs[0]) return true;
      }
    }
    return false;
  };
  int seen = 0;
  for (std::uint64_t i = 0; i < 1500 && seen < 3; ++i) {
    const Generated one = generate(2, i, {.invalid = false});
    if (one.sample.steps.empty() || !pad_then_pool(one.sample)) continue;
    ++seen;
    const Sample small = reduce(one.sample, [&](const Sample& candidate) {
      try {
        run_reference(graph(candidate), inputs_of(candidate));
        return pad_then_pool(candidate);
      } catch (const Error&) {
        return false;
      }
    });
    EXPECT_EQ(small.steps.size(), 2U);
    EXPECT_EQ(op_chain(small), "Pad -> MaxPool");
  }
  EXPECT_EQ(seen, 3);
}

TEST(Backward, DerivativesAreStepsThatTheReferenceRuns) {
  Rng rng(1);
  Grower grower(rng, GraphWriter::kOpset, "test");
  const std::string x = grower.add_input(grower.draw(DType::float32, {2, 3}, ValueClass::normal));
  const std::string w = grower.add_constant(grower.draw(DType::float32, {3, 2}, ValueClass::normal));
  grower.add("Tanh", grower.add("MatMul", {x, w}));
  const Sample sample = std::move(grower).finish();
  const std::optional<Backward> backward = with_backward(sample);
  ASSERT_TRUE(backward);
  ASSERT_EQ(backward->derivatives.size(), 2U);
  const auto loss = [&](const Sample& at) {
    const std::vector<Datum> outputs = run_reference(graph(at), inputs_of(at));
    double sum = 0;
    for (const double value : elements<double>(*outputs[0].tensor())) sum += value;
    return sum;
  };
  const Graph model = graph(backward->sample);
  const std::vector<Datum> outputs = run_reference(model, inputs_of(backward->sample));
  for (const auto& [of, derivative] : backward->derivatives) {
    std::size_t at = 0;
    while (model.value(model.main().outputs[at]).name != derivative) ++at;
    const double slope = element_as_double(*outputs[at].tensor(), 0);
    Sample up = sample, down = sample;
    for (auto [moved, by] : {std::pair(&up, 0.01), std::pair(&down, -0.01)}) {
      auto& tensors = moved->inputs.contains(of) ? moved->inputs : moved->constants;
      std::vector<double> values = elements<double>(tensors.at(of));
      values[0] += by;
      tensors[of] = from_elements<double>(DType::float32, tensors.at(of).dims(), values);
    }
    EXPECT_NEAR(slope, (loss(up) - loss(down)) / 0.02, 2e-3) << of;
  }
}

}  // namespace
}  // namespace finity::fuzz
