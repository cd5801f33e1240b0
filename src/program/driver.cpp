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
  if (bad.empty()) return;
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
  for (const SiteVerdict& verdict : prepared_.verdicts) {
    if (verdict.result == result && (outcome_.rule.empty() || !verdict.proved)) outcome_.rule = verdict.rule;
  }
}

void Driver::confirm() {
  const TrainingRun found = outcome_.run;
  TrainingRun run = found;
  const Repeated repeated = repeat_run(program(), engine_, run, watch_pass_);
  outcome_.confirmed = repeated.failed;
  if (!repeated.failed) return;
  run.steps.resize(repeated.step + 1);
  if (!trained_to_failure(run, repeated.step)) return;
  outcome_.steps = trainer_.steps();
  const PassResult again = trainer_.look(watch_pass_);
  outcome_.in_gradient = std::ranges::all_of(again.values, all_finite);
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
