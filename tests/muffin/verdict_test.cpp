// Muffin's rules on traces made by hand.
#include "muffin/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace finity::muffin {
namespace {

Tensor of(float x) { return Tensor::of<float>(DType::float32, {1}, std::vector<float>{x}); }

// dense -> ReLU -> add(dense, ReLU).
Model model() {
  Model model;
  model.loss = "huber";
  model.optimiser = "adam";
  const auto add = [&](const char* kind, std::vector<int> from) {
    model.layers.push_back({.spec = {.kind = kind}, .from = std::move(from), .output = kind, .dims = {1}});
  };
  add("dense", {-1});
  add("ReLU", {0});
  add("add", {0, 1});
  return model;
}

Trace trace(std::string name, std::vector<float> outputs, double loss, std::vector<float> gradients) {
  Trace result{.backend = std::move(name)};
  for (const float x : outputs) result.outputs.push_back(of(x));
  result.loss = loss;
  for (const float x : gradients) result.gradients.emplace_back(of(x));
  return result;
}

struct Seen {
  Phase phase;
  std::string kind;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> seen(const Trace& a, const Trace& b) {
  std::vector<Seen> result;
  for (const Inconsistency& one : judge_traces(model(), {a, b}).inconsistencies)
    result.push_back({one.phase, one.kind});
  return result;
}

const Trace kRight = trace("right", {1, 1, 2}, 0.5, {1, 1, 1});

TEST(Verdict, NothingWhereLibrariesAgreeOrDifferALittle) {
  EXPECT_TRUE(seen(kRight, kRight).empty());
  EXPECT_TRUE(seen(kRight, trace("near", {1.1F, 1.1F, 2.1F}, 0.6, {1.1F, 1.1F, 1.1F})).empty());
}

TEST(Verdict, ALayerBehindAgreeingOnesIsInconsistentAndThoseBehindItAreNot) {
  EXPECT_EQ(seen(kRight, trace("x", {1, 1.5F, 2.5F}, 0.9, {1, 1, 1})), (std::vector<Seen>{{Phase::forward, "ReLU"}}));
  EXPECT_EQ(seen(kRight, trace("x", {1, 1, 2.5F}, 0.9, {1, 1, 1})), (std::vector<Seen>{{Phase::forward, "add"}}));
}

TEST(Verdict, EpsilonIsStrict) {
  // The operand differs by more than epsilon: the layer is not to blame.
  EXPECT_TRUE(seen(kRight, trace("x", {1.00002F, 1.5F, 2.5F}, 0.9, {1, 1, 1})).empty());
}

TEST(Verdict, TheLossIsLookedAtWhenOutputsAgree) {
  EXPECT_EQ(seen(kRight, trace("x", {1, 1, 2}, 0.7, {1, 1, 1})), (std::vector<Seen>{{Phase::loss, "huber"}}));
  EXPECT_EQ(seen(kRight, trace("x", {1, 1, 2}, 0.5, {1, 1, 2})), (std::vector<Seen>{{Phase::loss, "huber"}}));
}

TEST(Verdict, TheBackwardPassIsLookedAtWhenLossesAgree) {
  // The gradient at ReLU came through add.
  EXPECT_EQ(seen(kRight, trace("x", {1, 1, 2}, 0.5, {1, 2, 1})), (std::vector<Seen>{{Phase::backward, "add"}}));
  // At dense it is a sum over both users, which agree.
  EXPECT_EQ(seen(kRight, trace("x", {1, 1, 2}, 0.5, {3, 1, 1})).size(), 1U);
  EXPECT_TRUE(seen(kRight, trace("x", {1, 1, 2}, 0.6, {3, 1, 1})).empty()) << "losses differ";
}

TEST(Verdict, AStepIsInconsistentWhenGradientsAgree) {
  Trace a = kRight, b = kRight;
  a.weight_gradients["w"] = b.weight_gradients["w"] = of(1);
  a.weights["w"] = of(1);
  b.weights["w"] = of(2);
  EXPECT_EQ(seen(a, b), (std::vector<Seen>{{Phase::step, "adam"}}));
  b.weight_gradients["w"] = of(1.1F);
  EXPECT_TRUE(seen(a, b).empty());
}

TEST(Verdict, VotesNeedAMajority) {
  const Trace wrong = trace("wrong", {1, 5, 6}, 4.5, {1, 1, 1});
  const Verdict two = judge_traces(model(), {kRight, wrong});
  EXPECT_EQ(two.inconsistencies.size(), 1U);
  EXPECT_TRUE(two.votes.empty());
  const Verdict three = judge_traces(model(), {kRight, wrong, kRight});
  ASSERT_EQ(three.votes.size(), 1U);
  EXPECT_EQ(three.votes[0].trace, 1U);
  EXPECT_EQ(three.votes[0].kind, "ReLU");
}

TEST(Verdict, NanCountsAtItsFirstLayerWhereAnotherLibraryHasNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Trace bad = trace("bad", {1, nan, nan}, nan, {1, 1, 1});
  const Verdict verdict = judge_traces(model(), {kRight, bad});
  ASSERT_EQ(verdict.nans.size(), 1U);
  EXPECT_EQ(verdict.nans[0].kind, "ReLU");
  EXPECT_TRUE(verdict.inconsistencies.empty());
  EXPECT_TRUE(judge_traces(model(), {bad, bad}).nans.empty());
}

TEST(Verdict, CrashesCountWhereAnotherLibraryRuns) {
  const Trace refused{.backend = "x", .end = Trace::End::refused, .message = "no"};
  const Trace crashed{.backend = "y", .end = Trace::End::crashed, .message = "dead"};
  const Trace unsupported{.backend = "z", .end = Trace::End::unsupported};
  const Verdict verdict = judge_traces(model(), {kRight, refused, crashed, unsupported});
  ASSERT_EQ(verdict.crashes.size(), 2U);
  EXPECT_FALSE(verdict.crashes[0].while_running);
  EXPECT_TRUE(verdict.crashes[1].while_running);
  EXPECT_TRUE(judge_traces(model(), {refused, crashed}).crashes.empty());
}

TEST(Verdict, DistancesOfInfinities) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(chebyshev(of(inf), of(inf)), 0);
  EXPECT_EQ(chebyshev(of(inf), of(1)), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(chebyshev(of(std::nanf("")), of(1))));
  EXPECT_TRUE(std::isnan(chebyshev(of(1), Tensor(DType::float32, {2}))));
}

}  // namespace
}  // namespace finity::muffin
