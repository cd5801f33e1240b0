// Reductions, softmax and losses: what eval and other orders of summation give lies in the ranges.
#include <gtest/gtest.h>

#include "ops/shared/range_groups.h"
#include "range_trials.h"

namespace finity {
namespace {

std::vector<std::int64_t> random_axes(Rng& rng, std::size_t rank) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (rng.below(2) == 0)
      axes.push_back(static_cast<std::int64_t>(axis) - (rng.below(3) == 0 ? static_cast<std::int64_t>(rank) : 0));
  }
  return axes;
}

class ReduceTrials : public testing::TestWithParam<const char*> {};

TEST_P(ReduceTrials, EvalLiesInside) {
  Rng rng(std::hash<std::string_view>()(GetParam()));
  TrialCounts counts;
  for (int i = 0; i < 600; ++i) {
    const bool integers = rng.below(8) == 0;
    const DType dtype = integers ? (rng.below(2) == 0 ? DType::int32 : DType::int64) : random_float(rng);
    const Dims dims = random_dims(rng, 0, 3);
    TrialNode node{.op = GetParam(), .version = rng.below(2) == 0 ? 13 : 18};
    node.attrs = {{"keepdims", static_cast<std::int64_t>(rng.below(2))}};
    const std::vector<std::int64_t> axes = random_axes(rng, dims.size());
    node.inputs.push_back(integers
                              ? TrialInput{.range = random_tensor(dtype, dims, {.largest = 100}, rng), .dims = dims}
                              : random_input(dtype, dims, rng));
    if (rng.below(2) == 0) {
      if (!axes.empty()) node.attrs.emplace_back("axes", axes);
    } else {
      if (rng.below(4) == 0) node.attrs.emplace_back("noop_with_empty_axes", std::int64_t{1});
      node.inputs.push_back(constant(Tensor::vector_of(axes)));
    }
    const std::string problem = try_node(Trial(node, random_settings(rng)), rng, 12, counts);
    ASSERT_EQ(problem, "") << "trial " << i;
  }
  EXPECT_GT(counts.runs, 6000);
  EXPECT_GT(counts.unexcused, 100);
}

INSTANTIATE_TEST_SUITE_P(Ops, ReduceTrials,
                         testing::Values("ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1",
                                         "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ReduceTrials, AxesThatAreNotKnown) {
  Rng rng(3);
  TrialCounts counts;
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"}) {
    for (int i = 0; i < 100; ++i) {
      const DType dtype = random_float(rng);
      const Dims dims = random_dims(rng, 1, 3);
      AbsTensor axes =
          uniform(DType::int64, {1}, {.lo = 0, .hi = static_cast<double>(dims.size()) - 1, .integer = true});
      TrialNode node{.op = op, .version = 18, .inputs = {random_input(dtype, dims, rng), ranged(std::move(axes))}};
      ASSERT_EQ(try_node(Trial(node), rng, 10, counts), "") << op << ' ' << i;
    }
  }
}

// ---- other orders of summation ---------------------------------------------------

// Adds in a random order, rounding every partial sum into the carrier.
double summed(std::vector<double> terms, DType carrier, Rng& rng) {
  while (terms.size() > 1) {
    const std::uint64_t habit = rng.below(3);
    const std::size_t a = habit == 0 ? 0 : rng.below(terms.size());
    std::swap(terms[a], terms.back());
    const double last = terms.back();
    terms.pop_back();
    const std::size_t b = habit == 1 ? 0 : rng.below(terms.size());
    terms[b] = round_to(carrier, terms[b] + last);
  }
  return terms.empty() ? 0 : terms[0];
}

TEST(GroupSums, HoldInEveryOrderAndFormat) {
  Rng rng(11);
  for (int i = 0; i < 20000; ++i) {
    const DType dtype = random_float(rng);
    const DType carrier = rng.below(2) == 0 || dtype == DType::float64 ? dtype : DType::float32;
    const RangeStyle style = random_style(rng, dtype);
    Group group;
    const std::size_t parts = 1 + rng.below(3);
    std::vector<double> terms;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto count = 1 + rng.below(i % 50 == 0 ? 3000 : 12);
      group.parts.push_back({random_range(dtype, style, rng), static_cast<double>(count)});
      for (std::uint64_t k = 0; k < count; ++k) terms.push_back(random_member(dtype, group.parts.back().each, rng));
    }
    if (rng.below(4) == 0) group.most = kManyElements;
    const double sum = summed(terms, carrier, rng);
    const Range sums = group_sum(dtype, carrier, group);
    ASSERT_TRUE(sums.contains(round_to(dtype, sum))) << name(dtype) << ' ' << sum << " not in " << to_string(sums);
    const double count = static_cast<double>(terms.size());
    const double mean = rng.below(2) == 0 ? round_to(carrier, sum / round_to(carrier, count))
                                          : round_to(carrier, sum * round_to(carrier, 1 / count));
    const Range means = group_mean(dtype, carrier, group);
    ASSERT_TRUE(means.contains(round_to(dtype, mean))) << name(dtype) << ' ' << mean << " not in " << to_string(means);
  }
}

TEST(GroupSums, StagnatingSumsStayBelowTheGrowthBound) {
  // Sequential sums of bfloat16 inflate most when each term is just above half a unit in the last place.
  for (const DType carrier : {DType::bfloat16, DType::float16}) {
    Rng rng(5);
    for (int i = 0; i < 200; ++i) {
      const double each = round_to(carrier, rng.uniform(1, 2) / 64);
      double sum = 0;
      for (int n = 1; n <= 3000; ++n) {
        sum = round_to(carrier, sum + each);
        ASSERT_LE(sum, n * each * sum_growth(carrier, n)) << n;
      }
    }
  }
}

// ---- softmax ---------------------------------------------------------------------

class SoftmaxTrials : public testing::TestWithParam<const char*> {};

TEST_P(SoftmaxTrials, EvalLiesInside) {
  Rng rng(std::hash<std::string_view>()(GetParam()));
  TrialCounts counts;
  for (int i = 0; i < 1500; ++i) {
    const DType dtype = random_float(rng);
    const bool large = rng.below(10) == 0;
    const Dims dims = random_dims(rng, 2, large ? 2 : 3, large ? 40 : 5);
    TrialNode node{.op = GetParam(), .version = rng.below(3) == 0 ? 11 : 13};
    if (rng.below(2) == 0) node.attrs.emplace_back("axis", static_cast<std::int64_t>(rng.below(dims.size())));
    node.inputs.push_back(random_input(dtype, dims, rng));
    const std::string problem = try_node(Trial(node, random_settings(rng)), rng, 12, counts);
    ASSERT_EQ(problem, "") << "trial " << i;
  }
  EXPECT_GT(counts.unexcused, 1000);
}

INSTANTIATE_TEST_SUITE_P(Ops, SoftmaxTrials, testing::Values("Softmax", "LogSoftmax", "Hardmax"),
                         [](const auto& info) { return std::string(info.param); });

// All of it in the narrow format, each step rounded.
TEST(SoftmaxTrials, NarrowArithmeticLiesInside) {
  Rng rng(17);
  for (int i = 0; i < 3000; ++i) {
    const DType dtype = rng.below(2) == 0 ? DType::float16 : DType::bfloat16;
    const auto size = static_cast<std::int64_t>(1 + rng.below(i % 20 == 0 ? 300 : 8));
    const AbsTensor x = random_tensor(dtype, {size}, {.largest = rng.below(2) == 0 ? 0.0 : 12.0}, rng);
    const TrialNode node{.op = "Softmax", .version = 13, .inputs = {ranged(x)}};
    const TrialNode log_node{.op = "LogSoftmax", .version = 13, .inputs = {ranged(x)}};
    const std::vector<double> values = elements<double>(random_elements(x, {size}, rng));
    const double top = *std::ranges::max_element(values);
    std::vector<double> terms;
    for (const double value : values) terms.push_back(round_to(dtype, std::exp(round_to(dtype, value - top))));
    const double sum = summed(terms, dtype, rng);
    std::vector<double> results, logs;
    for (std::size_t k = 0; k < terms.size(); ++k) {
      results.push_back(terms[k] / sum);
      logs.push_back(round_to(dtype, values[k] - top) - round_to(dtype, std::log(sum)));
    }
    EXPECT_EQ(escape(Trial(node).apply_rule(), 0, from_elements<double>(dtype, {size}, results)), "");
    EXPECT_EQ(escape(Trial(log_node).apply_rule(), 0, from_elements<double>(dtype, {size}, logs)), "");
  }
}

// ---- losses ----------------------------------------------------------------------

class LossTrials : public testing::TestWithParam<const char*> {};

TEST_P(LossTrials, EvalLiesInside) {
  Rng rng(std::hash<std::string_view>()(GetParam()));
  TrialCounts counts;
  for (int i = 0; i < 800; ++i) {
    const DType dtype = random_float(rng);
    const Dims dims = random_dims(rng, 2, 4, 4);
    Dims labels = dims;
    labels.erase(labels.begin() + 1);
    const char* reductions[] = {"none", "sum", "mean"};
    TrialNode node{.op = GetParam(), .version = 13};
    node.attrs = {{"reduction", std::string(reductions[rng.below(3)])}};
    const bool ignores = rng.below(3) == 0;
    if (ignores) node.attrs.emplace_back("ignore_index", static_cast<std::int64_t>(rng.below(5)) - 2);
    node.inputs.push_back(random_input(dtype, dims, rng));
    const double last = static_cast<double>(dims[1]) - 1;
    node.inputs.push_back(ranged(
        uniform(DType::int64, labels, {.lo = ignores && rng.below(2) == 0 ? -2.0 : 0.0, .hi = last, .integer = true})));
    if (rng.below(2) == 0) {
      node.inputs.push_back(
          ranged(random_tensor(dtype, {dims[1]}, {.largest = 10, .nonnegative = rng.below(4) != 0}, rng)));
    }
    if (node.op == "SoftmaxCrossEntropyLoss") node.outputs = 2;
    ASSERT_EQ(try_node(Trial(node, random_settings(rng)), rng, 12, counts), "") << "trial " << i;
  }
  EXPECT_GT(counts.unexcused, 300);
}

INSTANTIATE_TEST_SUITE_P(Ops, LossTrials, testing::Values("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace finity
