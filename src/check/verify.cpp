#include "check/verify.h"

#include <utility>

#include "base/memory_error.h"
#include "base/time_limit.h"

namespace finity {

namespace {

constexpr std::string_view kEscape = "verification failed: ";

[[noreturn]] void fail(const Graph& graph, const Node* node, ValueId id, const std::string& what) {
  const std::string given = graph.value(id).producer.valid() ? "value" : "input";
  const std::string where = node == nullptr ? given : describe(graph, *node) + ": output";
  throw Error(std::string(kEscape) + where + " '" + graph.value(id).name + "' " + what);
}

}  // namespace

void verify_run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                VerifyReport& report) {
  Judge judge(graph, analysis, report, false,
              [&](const Node* node, ValueId id, const std::string& what) { fail(graph, node, id, what); });
  for (const ValueId id : graph.main().inputs) {
    const auto given = drawn.inputs.find(graph.value(id).name);
    if (given == drawn.inputs.end()) continue;
    judge.give(id, given->second);
    judge.check_given(id);
  }
  for (const auto& [id, datum] : drawn.weights) judge.give(id, datum);
  std::vector<Note> unsupported;
  RunOptions options = {.seed = seed, .trace = {}, .unsupported = &unsupported, .weights = &drawn.weights};
  options.trace = [&](const Node& node, std::span<const Datum> outputs) { judge.look_at(node, outputs); };
  try {
    run_reference(graph, drawn.inputs, options);
  } catch (const TimeUp&) {
    throw;
  } catch (const Error& error) {
    // On its way here an escape was given the context of an evaluation that failed, which it is not.
    const std::string_view text = error.what();
    if (const std::size_t at = text.find(kEscape); at != std::string_view::npos)
      throw Error(std::string(text.substr(at)));
    ++report.failed;
    if (report.first_failure.empty()) report.first_failure = error.what();
  }
  ++report.runs;
  if (report.unsupported.empty()) report.unsupported = std::move(unsupported);
}

VerifyReport verify(const Graph& graph, const Types& types, const Premises& premises, const Analysis& analysis,
                    const VerifyOptions& options) {
  const TimeLimit limit(options.time_limit);
  Rng rng(options.seed);
  VerifyReport report;
  for (int number = 0; number < options.runs; ++number) {
    try {
      check_time();
      Drawn drawn;
      with_memory_errors([&] { drawn = draw_inside(graph, types, premises, rng, number); });
      verify_run(graph, analysis, drawn, options.seed + static_cast<std::uint64_t>(number), report);
    } catch (const TimeUp&) {
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
