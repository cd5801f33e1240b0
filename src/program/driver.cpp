#include "program/driver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/table/op.h"
#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTracePoints = 2000;

}  // namespace

Driver::Driver(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine)
    : prepared_(prepared),
      options_(options),
      engine_(engine),
      trainer_(prepared.program, engine, options.seed),
      start_(Clock::now()) {
  watch_pass_ = add_pass({});
  outcome_.engine = engine.name();
  outcome_.closest = std::numeric_limits<double>::infinity();
}

ValueId Driver::find(const std::string& name) const {
  const auto values = program().graph->values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].body == Graph::kMain && values[i].name == name) return {static_cast<std::int32_t>(i)};
  }
  throw Error("the program has no value named '" + name + "'");
}

std::size_t Driver::add_pass(std::vector<ValueId> read, ValueId derived, std::vector<ValueId> by) {
  std::vector<ValueId> all = program().watch_ids;
  all.insert(all.end(), read.begin(), read.end());
  return engine_.add_pass({.read = std::move(all), .derived = derived, .by = std::move(by)});
}

double Driver::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

// Thinned to every second, fourth, ... point as the search goes on.
void Driver::note(double distance) {
  if (outcome_.iterations % stride_ != 0) return;
  outcome_.trace.push_back(distance);
  if (outcome_.trace.size() < kTracePoints) return;
  for (std::size_t i = 0; 2 * i < outcome_.trace.size(); ++i) outcome_.trace[i] = outcome_.trace[2 * i];
  outcome_.trace.resize(outcome_.trace.size() / 2);
  stride_ *= 2;
}

bool Driver::saw(const PassResult& result, double distance) {
  count();
  if (!std::isnan(distance)) {
    note(distance);
    const auto [place, first] = closest_.try_emplace(outcome_.site, distance);
    place->second = std::min(place->second, distance);
    outcome_.closest = place->second;
  }
  const auto watched = std::span(result.values).first(watch_count());
  if (std::ranges::all_of(watched, all_finite)) return false;
  hit();
  return true;
}

bool Driver::is_over() {
  if (outcome_.hit || stopped_) return true;
  const double now = seconds();
  if (now > options_.seconds) {
    outcome_.stopped = "time";
    stopped_ = true;
  } else if (options_.progress && now - told_ > 0.2) {
    told_ = now;
    if (!options_.progress(now, outcome_.iterations, outcome_.closest)) {
      outcome_.stopped = "interrupted";
      stopped_ = true;
    }
  }
  return stopped_;
}

void Driver::hit() {
  outcome_.hit = true;
  outcome_.seconds = seconds();
  outcome_.run = trainer_.run();
  outcome_.steps = trainer_.steps();
  if (options_.any_failure || options_.site.empty()) return;
  confirm();
  if (is_at_site()) return;
  ProgramOutcome open = {.iterations = outcome_.iterations, .site = outcome_.site, .closest = outcome_.closest};
  open.engine = outcome_.engine;
  open.trace = std::move(outcome_.trace);
  outcome_ = std::move(open);
  was_repeated_ = false;
  trainer_.forget_starts();
  trainer_.release_draws();
  trainer_.restart();
  trainer_.fresh_batch();
}

// The node that failed is one of those that were asked for, or belongs to the derivative of one.
bool Driver::is_at_site() const {
  return std::ranges::any_of(prepared_.suspects, [&](const Suspect& suspect) {
    return outcome_.node_name == suspect.name || outcome_.node_name == suspect.result;
  });
}

void Driver::conclude() {
  outcome_.seconds = seconds();
  for (const Suspect& suspect : prepared_.suspects) {
    const auto found = closest_.find(suspect.title);
    if (found == closest_.end()) continue;
    outcome_.site = suspect.title;
    outcome_.closest = found->second;
    return;
  }
}

// Trains up to a step and feeds it.
bool Driver::trained_to_failure(const TrainingRun& run, std::size_t last) {
  trainer_.begin(run);
  for (std::size_t step = 0; step < last; ++step) {
    trainer_.feed_step(run, step);
    if (!trainer_.train()) return false;
  }
  trainer_.feed_step(run, last);
  return true;
}

void Driver::name_node() {
  std::vector<ValueId> wanted = program().watch_ids;
  std::vector<NodeId> bad;
  for (const bool backward : {false, true}) {
    for (const std::string& name : prepared_.gradients) {
      if (backward) wanted.push_back(find(name));
    }
    for (const char* purpose : {"look", "train"}) {
      if (!bad.empty()) break;
      engine_.set_seed(seed_for(trainer_.seed(), purpose, trainer_.steps()));
      try {
        bad = engine_.failures(wanted);
      } catch (const Unsupported& error) {
        outcome_.what = error.what();
      }
    }
  }
  if (bad.empty()) {
    outcome_.node = "the optimiser's step";
    outcome_.what = "weights are not finite, though their gradients are,";
    return;
  }
  const Node& node = program().graph->node(bad.front());
  outcome_.node = describe(*program().graph, node);
  outcome_.in_gradient = node.gradient_of.valid();
  const bool has_result = !node.outputs.empty() && node.outputs.front().valid();
  const std::string result = has_result ? program().graph->value(node.outputs.front()).name : "";
  outcome_.node_name = node.name.empty() ? result : node.name;
  if (node.gradient_of.valid()) {
    outcome_.node += ", for the derivative of " + describe(*program().graph, program().graph->node(node.gradient_of));
  }
  outcome_.what = "'" + result + "' is not finite";
  outcome_.disproves = true;
  for (const SiteVerdict& verdict : prepared_.verdicts) {
    if (verdict.result != result) continue;
    if (outcome_.rule.empty() || !verdict.proved) outcome_.rule = verdict.rule;
    outcome_.disproves &= verdict.proved;
  }
  outcome_.disproves &= !outcome_.rule.empty();
}

// Only the last so many training steps, when they suffice.
TrainingRun Driver::shortened(const TrainingRun& run) {
  const double until = seconds() + std::max(1.0, outcome_.seconds);
  for (std::size_t keep = 0; keep + 1 < run.steps.size() && seconds() < until; keep = keep == 0 ? 1 : 2 * keep) {
    TrainingRun tried = run;
    const auto from = static_cast<std::ptrdiff_t>(run.steps.size() - 1 - keep);
    tried.steps.erase(tried.steps.begin(), tried.steps.begin() + from);
    if (repeat_run(program(), engine_, tried, watch_pass_).failed) return tried;
  }
  return run;
}

// Samples of the last batch that do not matter become those of the data again, in halves, quarters, ...
void Driver::simplify_batch() {
  constexpr int kMostLooks = 64;
  if (trainer_.sample_count() == 0) return;
  const auto batch = static_cast<std::size_t>(program().batch);
  int looks = 0;
  for (std::size_t size = (batch + 1) / 2; size > 0 && looks < kMostLooks; size /= 2) {
    for (std::size_t from = 0; from < batch && looks < kMostLooks; from += size, ++looks) {
      std::vector<Tensor> before;
      for (std::size_t i = 0; i < program().inputs.size(); ++i) before.push_back(trainer_.value(i));
      const std::size_t to = std::min(from + size, batch);
      for (std::size_t k = from; k < to; ++k) {
        trainer_.set_sample(k, static_cast<std::int64_t>(k) % trainer_.sample_count());
      }
      const PassResult result = trainer_.look(watch_pass_);
      if (!std::ranges::all_of(result.values, all_finite)) continue;
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (!program().inputs[i].draw) trainer_.set_value(i, std::move(before[i]));
      }
    }
  }
}

void Driver::confirm() {
  if (was_repeated_) return;
  was_repeated_ = true;
  if (outcome_.run.steps.empty()) {
    outcome_.what = "the run was too long to keep";
    return;
  }
  // A shorter run may fail elsewhere.
  TrainingRun run = options_.any_failure ? shortened(outcome_.run) : outcome_.run;
  const Repeated repeated = repeat_run(program(), engine_, run, watch_pass_);
  outcome_.confirmed = repeated.failed;
  if (!repeated.failed) return;
  run.steps.resize(repeated.step + 1);
  if (!trained_to_failure(run, repeated.step)) return;
  outcome_.steps = trainer_.steps();
  const PassResult again = trainer_.look(watch_pass_);
  outcome_.in_gradient = std::ranges::all_of(again.values, all_finite);
  if (!outcome_.in_gradient) simplify_batch();
  // The engine gets what was settled on, not what was tried last.
  trainer_.look(watch_pass_);
  name_node();
  outcome_.run = trainer_.run();
}

ProgramOutcome drive(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine) {
  Driver driver(prepared, options, engine);
  driver.trainer().restart();
  driver.trainer().fresh_batch();
  switch (options.strategy) {
    case Strategy::plain: train_plainly(driver); break;
    case Strategy::grist: search_as_grist(driver, true); break;
    case Strategy::grist_ns: search_as_grist(driver, false); break;
    case Strategy::automatic: search_automatically(driver); break;
  }
  ProgramOutcome& outcome = driver.outcome();
  if (!outcome.hit) driver.conclude();
  if (outcome.hit && options.confirm) driver.confirm();
  return std::move(outcome);
}

}  // namespace finity
