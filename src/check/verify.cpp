#include "check/verify.h"

#include <algorithm>
#include <utility>

#include "base/memory_error.h"
#include "base/time_limit.h"

namespace finity {

namespace {

[[noreturn]] void fail(const Graph& graph, const Node* node, ValueId id, const std::string& what) {
  const std::string given = graph.value(id).producer.valid() ? "value" : "input";
  const std::string where = node == nullptr ? given : describe(graph, *node) + ": output";
  throw Error(std::string(kVerificationFailed) + where + " '" + graph.value(id).name + "' " + what);
}

// Keeps the first witness of each finding.
Judge::Met remember_in(const Analysis& analysis, std::vector<FailingRun>& witnesses) {
  return [&](const Finding& finding, const std::string& what) {
    const auto index = static_cast<std::size_t>(&finding - analysis.findings.data());
    if (std::ranges::find(witnesses, index, &FailingRun::finding) != witnesses.end()) return;
    witnesses.push_back({.finding = index, .what = what});
  };
}

void give_inputs(const Graph& graph, const Drawn& drawn, Judge& judge) {
  for (const ValueId id : graph.main().inputs) {
    const auto given = drawn.inputs.find(graph.value(id).name);
    if (given == drawn.inputs.end()) continue;
    judge.give(id, given->second);
    judge.check_given(id);
  }
  for (const auto& [id, datum] : drawn.weights) judge.give(id, datum);
}

// All that a run on these inputs showed belongs to them.
void complete_witnesses(std::vector<FailingRun>& witnesses, std::size_t from, const std::shared_ptr<const Drawn>& drawn,
                        const std::vector<Datum>& outputs) {
  for (std::size_t i = from; i < witnesses.size(); ++i) {
    witnesses[i].drawn = drawn;
    witnesses[i].outputs = outputs;
    if (drawn->flush_subnormals) witnesses[i].what += " (subnormal numbers flushed)";
  }
}

std::vector<Datum> run_once(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                            VerifyReport& report) {
  Judge judge(
      graph, analysis, report, false,
      [&](const Node* node, ValueId id, const std::string& what) { fail(graph, node, id, what); },
      remember_in(analysis, report.witnesses));
  give_inputs(graph, drawn, judge);
  std::vector<Note> unsupported;
  std::vector<Datum> outputs;
  RunOptions options = {.seed = seed,
                        .trace = {},
                        .unsupported = &unsupported,
                        .weights = &drawn.weights,
                        .flush_subnormals = drawn.flush_subnormals};
  options.watch = [&](const Node& node, std::span<const Datum> given, std::span<const Datum> made) {
    judge.look_at(node, made, given);
  };
  try {
    outputs = run_reference(graph, drawn.inputs, options);
  } catch (const TimeUp&) {
    throw;
  } catch (const Error& error) {
    // On its way here an escape was given the context of an evaluation that failed, which it is not.
    const std::string_view text = error.what();
    if (const std::size_t at = text.find(kVerificationFailed); at != std::string_view::npos)
      throw Error(std::string(text.substr(at)));
    judge.stopped(text);
    ++report.failed;
    if (report.first_failure.empty()) report.first_failure = error.what();
  }
  ++report.runs;
  if (report.unsupported.empty()) report.unsupported = std::move(unsupported);
  return outputs;
}

}  // namespace

std::vector<Datum> verify_run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                              VerifyReport& report) {
  return run_once(graph, analysis, drawn, seed, report);
}

VerifyReport verify(const Graph& graph, const Types& types, const Premises& premises, const Analysis& analysis,
                    const VerifyOptions& options) {
  const TimeLimit limit(options.time_limit);
  Rng rng(options.seed);
  VerifyReport report;
  report.wanted = options.runs;
  for (int number = 0; number < options.runs; ++number) {
    const std::size_t before = report.witnesses.size();
    auto drawn = std::make_shared<Drawn>();
    std::vector<Datum> outputs;
    try {
      check_time();
      with_memory_errors([&] { *drawn = draw_inside(graph, types, premises, rng, number); });
      drawn->flush_subnormals = analysis.flushes_subnormals && number % 2 == 1;
      outputs = run_once(graph, analysis, *drawn, options.seed + static_cast<std::uint64_t>(number), report);
      complete_witnesses(report.witnesses, before, drawn, outputs);
    } catch (const TimeUp&) {
      complete_witnesses(report.witnesses, before, drawn, outputs);
      report.time_up = true;
      break;
    } catch (Error& error) {
      error.in("run " + std::to_string(number) + " of seed " + std::to_string(options.seed));
      throw;
    }
  }
  return report;
}

}  // namespace finity
