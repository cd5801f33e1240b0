// Every op of the table on random operands and attributes, most of them odd:
// whatever happens, it is an answer or an Error, and what inference claims is
// true of what evaluation gives, however little it was told of the inputs. So is
// what the range rule claims of operands that are a little more than these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "check/analyze.h"
#include "check/verify.h"
#include "exec/random_call.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "ops/table/op.h"
#include "support/around.h"
#include "support/range_probe.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

constexpr int kCallsPerOp = 200;
constexpr int kMixes = 3, kRuns = 2;

// A tensor of unknown size is taken to have elements, and some calls that ONNX forbids get an answer nevertheless:
// quantized to a float, with more coefficients than features, or in a format that has no zero.
bool outside_premises(const RandomCall& call, int detail) {
  const std::string_view op = call.graph.nodes().front().op_type;
  if (op == "QuantizeLinear" || op == "SVMClassifier" || op == "SVMRegressor") return true;
  return std::ranges::any_of(call.inputs, [detail](const auto& input) {
    const Tensor* tensor = input.second.tensor();
    const bool unannounced = detail > 1 && tensor != nullptr && tensor->size() == 0;
    return unannounced || (tensor != nullptr && tensor->dtype() == DType::float8e8m0);
  });
}

// What evaluation gives lies in the ranges.
void check_runs(const RandomCall& call, const Types& types, const Premises& given) {
  const Analysis analysis = analyze(call.graph, types, given);
  VerifyReport report;
  Rng rng(1);
  try {
    verify_run(call.graph, analysis, {.inputs = call.inputs, .weights = {}}, 0, report);
    for (int run = 0; run < kRuns; ++run) {
      verify_run(call.graph, analysis, draw_inside(call.graph, types, given, rng, run), 0, report);
    }
  } catch (const Error& error) {
    const bool escaped = std::string_view(error.what()).starts_with("verification failed: node");
    if (escaped) ADD_FAILURE() << error.what() << "\n" << print_graph(call.graph);
  }
}

void check_ranges(const RandomCall& call, int detail, const Types& types, Rng& rng) {
  if (call.inputs.empty() || outside_premises(call, detail)) return;  // constants are folded
  check_runs(call, types, premises_around(call.graph, types, call.inputs, 64));
  for (int mix = 0; mix < kMixes; ++mix) {
    check_runs(call, types, mixed_premises(call.graph, types, call.inputs, mix == 0 ? 64 : 1, rng));
  }
}

// 1 when the call gave an answer. Inference may be stricter than evaluation, but not claim what is not so.
int run(const OpDef& op, std::uint64_t seed, int detail, Rng& rng) {
  const RandomCall call = random_call(op, seed, detail);
  int answers = 0;
  std::vector<Datum> outputs;
  try {
    outputs = run_reference(call.graph, call.inputs);
    answers = 1;
  } catch (const Error&) {
  }
  try {
    const Types types = infer_types(call.graph);
    if (answers == 1) {
      EXPECT_EQ(type_contradiction(call.graph, types, outputs), "") << print_graph(call.graph);
      check_ranges(call, detail, types, rng);
    }
  } catch (const Error&) {
  }
  return answers;
}

class RandomCalls : public testing::TestWithParam<const OpDef*> {};

TEST_P(RandomCalls, GiveAnAnswerOrAnError) {
  const OpDef& op = *GetParam();
  int answers = 0;
  Rng rng = seeded(1);
  const std::uint64_t first = rng.below(1U << 30) * (std::getenv("FINITY_TEST_SEED") != nullptr ? 1 : 0);
  for (std::uint64_t i = first; i < first + kCallsPerOp && !testing::Test::HasFailure(); ++i) {
    for (int detail = 0; detail < 4; ++detail) answers += run(op, i, detail, rng);
  }
  RecordProperty("answers", answers);
}

INSTANTIATE_TEST_SUITE_P(Table, RandomCalls, testing::ValuesIn(callable_ops()), [](const auto& info) {
  std::string name = std::string(info.param->identity.domain) + "_" + std::string(info.param->identity.name);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace finity
