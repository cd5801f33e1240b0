// Random calls of every op in the engine on LibTorch: odd attributes, shapes and elements end in an answer, never in a
// crash, and where both have a result it is the reference's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "base/error.h"
#include "exec/random_call.h"
#include "torch/coverage.h"
#include "torch/torch_support.h"
#include "types/infer.h"

namespace finity {
namespace {

// Known to go another way than in the reference, with odd operands.
const std::map<std::string, std::string>& known() {
  static const std::map<std::string, std::string> kKnown = {
      {"finity.Digamma", "differs"},         // LibTorch loses digits near zeros of the function
      {"Det", "differs"},                    // of infinite elements
      {"com.microsoft.Inverse", "differs"},  // of matrices that are not finite, or singular
      {"Slice", "runs"},                     // of nothing, along an axis that is not there
      {"GatherElements", "runs"},            // of nothing, with indices of another shape
      {"Mod", "fails"},                      // of no floats, with fmod 0
      {"Celu", "differs"},                   // with an infinite factor, of zero
      {"Selu", "differs"},                   // with an infinite factor, of zero
      {"DFT", "differs"},                    // of NaN
      {"Pow", "differs"},                    // integers beyond 64 bits
      {"Shrink", "differs"},                 // integers beyond 64 bits
      {"ReduceLogSum", "differs"},           // integers beyond 64 bits
      {"ReduceLogSumExp", "differs"},        // integers beyond 64 bits
      {"MatMulInteger", "runs"},             // zero points of another shape
      {"DynamicSlice", "runs"},              // of nothing, along an axis that is not there
      {"ScatterElements", "runs"},           // of nothing, with indices of another shape
  };
  return kKnown;
}

struct Tally {
  int agreed = 0, refused = 0;
};

// "agrees", "refused", "declined", "fails" or "runs" (only in LibTorch), or how the results differ.
std::string what_becomes(const RandomCall& call) {
  std::optional<std::vector<Datum>> expected;
  try {
    infer_types(call.graph);
    expected = run_reference(call.graph, call.inputs);
  } catch (const Error&) {
  }
  const NamedData inputs(call.inputs.begin(), call.inputs.end());
  const Answer answer = run_in_torch(call.graph, inputs);
  if (answer.outcome == Answer::Outcome::crashed || answer.outcome == Answer::Outcome::late)
    return "crashes: " + answer.text;
  if (!expected) return answer.done() ? "runs" : "refused";
  if (answer.outcome == Answer::Outcome::unsupported) return "declined";
  if (!answer.done()) return "fails: " + answer.text;
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const std::string why = difference(call.graph, inputs, answer.outputs.at(i).second, (*expected)[i]);
    if (!why.empty()) return "differs: output " + std::to_string(i) + ": " + why;
  }
  return "agrees";
}

void judge(const OpDef& op, std::uint64_t seed, Tally& tally) {
  const std::string name =
      (op.identity.domain.empty() ? "" : std::string(op.identity.domain) + ".") + std::string(op.identity.name);
  const std::string what = what_becomes(random_call(op, seed, 1));
  if (what == "agrees") ++tally.agreed;
  if (what == "refused") ++tally.refused;
  const std::string kind = what.substr(0, what.find(':'));
  const auto found = known().find(name);
  const bool fine =
      kind == "agrees" || kind == "refused" || kind == "declined" || (found != known().end() && found->second == kind);
  EXPECT_TRUE(fine) << name << " with seed " << seed << " " << what;
}

TEST(TorchRandomCalls, EndInTheSameAnswer) {
  const char* given = std::getenv("FINITY_TEST_SEED");
  const std::uint64_t first = given == nullptr ? 0 : std::strtoull(given, nullptr, 10);
  Tally tally;
  for (const OpDef* op : callable_ops()) {
    if (how_lowered(*op) == "no" || op->traits.random) continue;
    for (std::uint64_t seed = first; seed < first + 20; ++seed) judge(*op, seed, tally);
  }
  std::printf("%d random calls agree, %d are refused by both\n", tally.agreed, tally.refused);
  EXPECT_GE(tally.agreed, 2000);
}

}  // namespace
}  // namespace finity
