#include "program/search_program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/onnx/onnx.h"
#include "program/driver.h"
#include "program/remote.h"
#include "program/suspects.h"

namespace finity {

namespace {

constexpr std::array<std::pair<Strategy, std::string_view>, 4> kStrategies = {{
    {Strategy::plain, "default"},
    {Strategy::grist, "grist"},
    {Strategy::grist_ns, "grist-ns"},
    {Strategy::automatic, "auto"},
}};

std::string closest_text(const Prepared& prepared, const ProgramOutcome& outcome) {
  const auto named = [&](const Suspect& suspect) { return suspect.title == outcome.site; };
  const auto found = std::ranges::find_if(prepared.suspects, named);
  if (found == prepared.suspects.end() || !std::isfinite(outcome.closest)) return "";
  char text[80];
  if (found->unsafe.empty()) {
    std::snprintf(text, sizeof text, "at most %.6g of %.6g", found->limit * std::exp(-outcome.closest), found->limit);
    return text;
  }
  std::snprintf(text, sizeof text, "%.6g away from ", outcome.closest);
  return text + found->unsafe;
}

// Nothing when the engine does not lower the program, with its words in `refused`.
std::optional<ProgramOutcome> in_worker(const Prepared& prepared, const ProgramSearch& options, Worker& torch,
                                        std::string& refused) {
  LongRequest request = {.model = write_onnx(*prepared.program.graph), .task = encode_search(prepared, options)};
  request.seconds = 3 * options.seconds + 60;
  Progress last;
  request.tell = [&](const std::string& text) {
    last = decode_search_progress(text);
    return !options.progress || options.progress(last.seconds, last.iterations, last.closest);
  };
  const Answer answer = torch.task(request);
  if (answer.done()) return decode_search(answer.words, answer.outputs);
  if (answer.outcome == Answer::Outcome::unsupported || answer.outcome == Answer::Outcome::refused) {
    refused = answer.text;
    return std::nullopt;
  }
  ProgramOutcome outcome = {.seconds = last.seconds, .iterations = last.iterations, .closest = last.closest};
  outcome.engine = "libtorch";
  outcome.stopped = std::string(name(answer.outcome)) + ": " + answer.text;
  return outcome;
}

}  // namespace

std::string_view name(Strategy strategy) {
  return std::ranges::find(kStrategies, strategy, &std::pair<Strategy, std::string_view>::first)->second;
}

Strategy strategy_from_name(std::string_view text) {
  const auto found = std::ranges::find(kStrategies, text, &std::pair<Strategy, std::string_view>::second);
  if (found == kStrategies.end()) throw Error("--strategy is default, grist, grist-ns or auto");
  return found->first;
}

ProgramOutcome search_program(const Program& program, const ProgramSearch& options, Worker* torch) {
  const auto start = std::chrono::steady_clock::now();
  const Prepared prepared = prepare(program, options.site);
  const double before = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string refused;
  std::optional<ProgramOutcome> outcome;
  if (torch != nullptr) outcome = in_worker(prepared, options, *torch, refused);
  if (!outcome) outcome = drive(prepared, options, *make_reference_engine(prepared.program));
  outcome->seconds += before;
  outcome->closest_text = closest_text(prepared, *outcome);
  outcome->proved = prepared.proved;
  outcome->suspects = prepared.suspects.size();
  outcome->refused = std::move(refused);
  return std::move(*outcome);
}

}  // namespace finity
