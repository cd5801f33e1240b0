// What samples are drawn from, and in which order.
#include "fuzz/generate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fuzz/campaign_support.h"
#include "fuzz/schedule.h"
#include "fuzz/takes.h"

namespace finity::fuzz {
namespace {

TEST(Schedule, EveryOrderedPairComesOnceBeforeOneComesAgain) {
  for (const std::size_t count : {2U, 3U, 5U, 8U, 10U, 31U, 60U}) {
    std::map<std::pair<std::size_t, std::size_t>, int> seen;
    const std::uint64_t paths = paths_in_cycle(count);
    for (std::uint64_t number = 0; number < paths; ++number) {
      const std::vector<std::size_t> path = path_in_turn(count, number);
      ASSERT_LE(path.size(), kPathSteps);
      for (std::size_t i = 1; i < path.size(); ++i) {
        if (path[i - 1] < count && path[i] < count) ++seen[{path[i - 1], path[i]}];
      }
      EXPECT_EQ(path, path_in_turn(count, number + paths));
    }
    EXPECT_EQ(seen.size(), count * (count - 1)) << count;
    for (const auto& [pair, times] : seen) {
      EXPECT_EQ(times, 1) << count << ": " << pair.first << " before " << pair.second;
      EXPECT_NE(pair.first, pair.second);
    }
  }
}

// Each form that an operand may have beside a batch of images.
TEST(Grower, OperandsHaveEveryFormThatIsRepeated) {
  Rng rng(5);
  Grower grower(rng, 17, "test");
  const Dims dims = {2, 3, 5, 7};
  std::set<Dims> seen;
  for (int i = 0; i < 2000; ++i) seen.insert(grower.broadcastable(dims));
  for (const Dims& form : {Dims{}, Dims{1}, Dims{7}, Dims{5, 1}, Dims{3, 1, 1}, Dims{1, 3, 1, 1}, Dims{2, 1, 1, 1},
                           Dims{5, 7}, Dims{3, 5, 7}, Dims{1, 1, 1, 1}, Dims{1, 1, 1, 7}, dims})
    EXPECT_TRUE(seen.contains(form)) << to_string(form);
  for (const Dims& form : seen) {
    for (std::size_t i = 0; i < form.size() && i < dims.size(); ++i) {
      const std::int64_t size = form[form.size() - 1 - i];
      EXPECT_TRUE(size == 1 || size == dims[dims.size() - 1 - i]) << to_string(form);
    }
  }
}

// The reference judges what ops draw for themselves: most of it must be legal, in every operator set.
TEST(Grower, OperandsThatOpsDrawAreMostlyLegal) {
  int ops = 0;
  for (const OpDef* op : sample_ops({})) {
    if (op->drawing.operands == nullptr) continue;
    ++ops;
    for (const int opset : {11, 13, 17, 21}) {
      if (std::max(op->identity.since, op->drawing.since) > opset) continue;
      if (op->identity.until != 0 && op->identity.until < opset) continue;
      int legal = 0;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Rng rng(seed);
        Grower grower(rng, opset, "test");
        legal += grower.add(*op).empty() ? 0 : 1;
      }
      // The logarithm of a sum may be NaN, which is no ordinary number.
      EXPECT_GE(legal, 24) << op->identity.name << " in operator set " << opset;
    }
  }
  EXPECT_GT(ops, 35);
}

// Calls have the form that their operator set gives them: axes are an attribute, later an operand.
TEST(Grower, CallsHaveTheFormOfTheirOperatorSet) {
  const auto calls = [](const char* name, int opset) {
    std::vector<Step> steps;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Rng rng(seed);
      Grower grower(rng, opset, "test");
      grower.add(*find_op("", name));
      for (const Step& step : grower.sample().steps) steps.push_back(step);
    }
    EXPECT_GT(steps.size(), 30U) << name;
    return steps;
  };
  for (const Step& step : calls("ReduceSum", 12)) EXPECT_EQ(step.inputs.size(), 1U);
  for (const Step& step : calls("ReduceSum", 13)) EXPECT_EQ(step.attrs.find("axes"), nullptr);
  for (const Step& step : calls("ReduceMean", 17)) EXPECT_EQ(step.inputs.size(), 1U);
  for (const Step& step : calls("ReduceMean", 18)) EXPECT_EQ(step.attrs.find("axes"), nullptr);
  for (const Step& step : calls("Clip", 10)) EXPECT_EQ(step.inputs.size(), 1U);
  for (const Step& step : calls("ScatterElements", 17)) {
    const Attr* how = step.attrs.find("reduction");
    EXPECT_TRUE(how == nullptr || (*how != Attr(std::string("max")) && *how != Attr(std::string("min"))));
  }
}

TEST(Generate, DrawsWhatOneOfTheLibrariesRuns) {
  GenerateOptions options;
  options.newest_opset = 13;
  options.runs = {"Add", "Conv", "Relu", "Reshape"};
  std::set<std::string> foreign;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const Generated made = generate(3, index, options);
    EXPECT_LE(made.sample.opset, 13);
    const std::string& origin = made.sample.origin;
    const bool drawn = origin.starts_with("path") || origin.starts_with("sweep") || origin.starts_with("chain");
    for (const Step& step : made.law.empty() && drawn ? made.sample.steps : std::vector<Step>()) {
      if (std::ranges::binary_search(options.runs, step.op)) continue;
      EXPECT_EQ(index % 5, 0U) << "number " << index << " is not of those in which every op may come: " << step.op;
      foreign.insert(step.op);
    }
  }
  EXPECT_GT(foreign.size(), 10U) << "ops that nobody was seen to run come now and then";
}

TEST(Generate, TheNewestOperatorSetIsMeasured) {
  Backend backend = faulty("old");
  EXPECT_EQ(newest_opset(backend, 22), 15);
  Backend all = faulty("none");
  EXPECT_EQ(newest_opset(all, 22), 22);
}

}  // namespace
}  // namespace finity::fuzz
