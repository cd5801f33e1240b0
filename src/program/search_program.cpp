#include "program/search_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
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

std::string closest_text(const Prepared& prepared, const std::string& site, double closest) {
  const auto found = std::ranges::find(prepared.suspects, site, &Suspect::title);
  if (found == prepared.suspects.end() || !std::isfinite(closest)) return "";
  char text[100];
  if (found->unsafe.empty()) {
    // Later nodes may take an infinity away again: a quotient by it is 0.
    const bool passed = closest < 0;
    std::snprintf(text, sizeof text, "%s %.6g of %.6g%s", passed ? "reached" : "at most",
                  found->limit * std::exp(-closest), found->limit, passed ? ", with no failure seen" : "");
    return text;
  }
  std::snprintf(text, sizeof text, "%.6g away from ", closest);
  // A derivative is not computed where the forward pass has failed.
  const bool hidden = found->in_gradient && closest <= 0;
  return text + found->unsafe + (hidden ? ", where something before it fails" : "");
}

// What was seen before the worker was lost, repeated in a new one.
ProgramOutcome saved(const Prepared& prepared, std::vector<ProgramOutcome> seen, Worker& torch) {
  for (ProgramOutcome& one : seen) {
    try {
      const std::optional<Repeated> repeated = repeat_in_worker(prepared.program, one.run, torch);
      one.confirmed = repeated && repeated->failed;
    } catch (const Error&) {
      one.confirmed = false;  // it does not even start again
    }
    const auto suspect = std::ranges::find(prepared.suspects, one.site, &Suspect::title);
    if (suspect == prepared.suspects.end()) continue;
    one.node = suspect->title;
    one.node_name = suspect->name;
    one.rule = suspect->rule;
    one.at_site = true;
    one.in_gradient = suspect->in_gradient;
    one.what = "'" + suspect->result + "' is not finite";
  }
  ProgramOutcome outcome = std::move(seen.front());
  outcome.more.assign(std::make_move_iterator(seen.begin() + 1), std::make_move_iterator(seen.end()));
  return outcome;
}

// Nothing when the engine does not lower the program, with its words in `refused`.
std::optional<ProgramOutcome> in_worker(const Prepared& prepared, const ProgramSearch& options, Worker& torch,
                                        std::string& refused) {
  LongRequest request = {.model = write_onnx(*prepared.program.graph), .task = encode_search(prepared, options)};
  // Until it is taken for hanging. Processor time passes slowly on a busy machine.
  request.seconds = (options.clock == ClockKind::wall ? 3 : 30) * options.seconds + 60;
  Progress last;
  std::vector<ProgramOutcome> seen;
  request.tell = [&](const std::string& text) {
    if (std::optional<ProgramOutcome> found = decode_search_found(text)) {
      seen.push_back(std::move(*found));
      return true;
    }
    last = decode_search_progress(text);
    return !options.progress || options.progress(last.seconds, last.iterations, last.closest);
  };
  const Answer answer = torch.task(request);
  if (answer.done()) return decode_search(answer.words, answer.outputs);
  const bool unable = answer.outcome == Answer::Outcome::unsupported || answer.outcome == Answer::Outcome::refused;
  if (unable && last.iterations == 0 && seen.empty()) {
    refused = answer.text;
    return std::nullopt;
  }
  const std::string words = (unable ? "failed" : std::string(name(answer.outcome))) + ": " + answer.text;
  ProgramOutcome outcome = {.seconds = last.seconds, .iterations = last.iterations, .closest = last.closest};
  if (!seen.empty()) outcome = saved(prepared, std::move(seen), torch);
  outcome.engine = "libtorch";
  outcome.stopped = words;
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
  const Stopwatch watch;
  const Prepared prepared = prepare(program, options.sites);
  const double before = watch.seconds(options.clock), wall_before = watch.seconds(ClockKind::wall);
  std::string refused;
  std::optional<ProgramOutcome> outcome;
  // Where everything is proved a short training only looks whether the proofs are true.
  constexpr double kProved = 1;
  ProgramSearch own = options;
  if (prepared.suspects.empty() && prepared.unsearched.empty()) own.seconds = std::min(own.seconds, kProved);
  if (torch != nullptr) outcome = in_worker(prepared, own, *torch, refused);
  if (!outcome) outcome = drive(prepared, own, *make_reference_engine(prepared.program));
  outcome->seconds += before;
  outcome->wall_seconds += wall_before;
  outcome->first_seconds += before;
  outcome->closest_text = closest_text(prepared, outcome->site, outcome->closest);
  for (OpenSite& open : outcome->open) open.closest_text = closest_text(prepared, open.title, open.closest);
  for (const Unsearched& left : prepared.unsearched) {
    outcome->open.push_back({.title = left.title, .rule = left.rule, .closest_text = left.why, .searched = false});
  }
  outcome->proved = prepared.proved;
  outcome->suspects = prepared.suspects.size();
  outcome->unsearched = prepared.unsearched.size();
  outcome->refused = std::move(refused);
  return std::move(*outcome);
}

}  // namespace finity
