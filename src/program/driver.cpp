#include "program/driver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/time_limit.h"
#include "ops/table/op.h"
#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::size_t kTracePoints = 2000;
// Other sites are given up when nothing new failed for so many seconds, and for so many times what the last one took.
constexpr double kPatience = 3;

}  // namespace

Driver::Driver(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine)
    : prepared_(prepared), options_(options), engine_(engine), trainer_(prepared.program, engine, options.seed) {
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
  passed_over_ = false;
  if (std::ranges::all_of(watched, all_finite)) return false;
  const bool ends = failed();
  passed_over_ = !ends;
  return ends;
}

bool Driver::is_finished() {
  if (outcome_.hit || stopped_) return true;
  const double now = seconds();
  const bool gives_up = !found_.empty() && now - last_found_ > std::max(kPatience, kPatience * last_found_);
  if (now > options_.seconds || gives_up) {
    outcome_.stopped = gives_up ? "patience" : "time";
    stopped_ = true;
  } else if (!tell()) {
    outcome_.stopped = "interrupted";
    stopped_ = true;
  }
  return stopped_;
}

void Driver::run_out_of_time() {
  if (outcome_.stopped.empty()) outcome_.stopped = "time";
  stopped_ = true;
}

bool Driver::tell() {
  const double now = watch_.seconds(ClockKind::wall);
  if (!options_.progress || now - told_ < 0.2) return true;
  told_ = now;
  return options_.progress(seconds(), outcome_.iterations, outcome_.closest);
}

void Driver::record() {
  outcome_.hit = true;
  outcome_.seconds = failed_at_;
  outcome_.wall_seconds = failed_at_wall_;
  outcome_.run = trainer_.run();
  outcome_.steps = trainer_.steps();
}

bool Driver::weights_are_finite() const {
  for (std::size_t i = 0; i < program().weights.size(); ++i) {
    if (!all_finite(engine_.weight(i))) return false;
  }
  return true;
}

// Proofs speak of no others.
bool Driver::weights_are_in_reach() const {
  for (std::size_t i = 0; i < program().weights.size(); ++i) {
    const double reach = program().weights[i].reach;
    if (std::isinf(reach)) continue;
    const std::vector<double> numbers = elements<double>(engine_.weight(i));
    if (!std::ranges::all_of(numbers, [&](double x) { return std::abs(x) <= reach; })) return false;
  }
  return true;
}

bool Driver::failed(bool backward) {
  failed_at_ = seconds();
  failed_at_wall_ = watch_.seconds(ClockKind::wall);
  if (counts_all()) {
    record();
    return true;
  }
  if (weights_are_finite()) return close(failing_nodes(backward));
  // Where it began only the run from its start tells.
  const TrainingRun run = trainer_.run();
  const Repeated repeated = repeat_run(program(), engine_, run, watch_pass_);
  std::vector<NodeId> nodes;
  if (repeated.failed && trained_to_failure(run, repeated.step)) {
    trainer_.look(watch_pass_);
    nodes = failing_nodes(true);
  }
  close(nodes);
  if (outcome_.hit) return true;
  trainer_.forget_starts();
  trainer_.release_draws();
  trainer_.restart();
  trainer_.fresh_batch();
  return true;
}

// Notes a failure at these nodes. True: what is pursued failed.
bool Driver::close(const std::vector<NodeId>& nodes) {
  const auto kept = [&](const std::string& site) {
    ProgramOutcome copy = outcome_;
    record();
    outcome_.site = site;
    std::swap(copy, outcome_);
    return copy;
  };
  const bool all = options_.until == Until::all_sites;
  bool known = false;
  for (const NodeId node : nodes) {
    const Suspect* suspect = suspect_of(node);
    known |= suspect != nullptr;
    if (suspect == nullptr || closed_.contains(suspect)) continue;
    // A node with several hazards shows them alike.
    for (const Suspect& other : prepared_.suspects) {
      if (other.result == suspect->result) closed_.insert(&other);
    }
    last_found_ = failed_at_;
    if (all) {
      found_.push_back(kept(suspect->title));
      if (options_.found) options_.found(found_.back());
    } else {
      record();
      outcome_.site = suspect->title;
      return true;
    }
  }
  if (!elsewhere_ && !known) elsewhere_ = kept(outcome_.site);
  const auto is_left = [&](const Suspect& suspect) { return !suspect.general && !closed_.contains(&suspect); };
  if (all && !found_.empty() && std::ranges::none_of(prepared_.suspects, is_left)) stopped_ = true;
  return pursued_ != nullptr && closed_.contains(pursued_);
}

// The node whose derivative this one helps to compute. A graph that came from another process only has the names that
// GraphWriter gives: "gradient/NAME/Div".
NodeId Driver::forward_of(NodeId id) const {
  constexpr std::string_view kPrefix = "gradient/";
  const Graph& graph = *program().graph;
  const Node& node = graph.node(id);
  const std::size_t end = node.name.rfind('/');
  if (node.gradient_of.valid() || !node.name.starts_with(kPrefix) || end < kPrefix.size()) return node.gradient_of;
  const std::string forward = node.name.substr(kPrefix.size(), end - kPrefix.size());
  for (const NodeId other : graph.main().nodes) {
    const std::vector<ValueId>& outputs = graph.node(other).outputs;
    const bool named = !graph.node(other).name.empty();
    if (named ? graph.node(other).name == forward
              : !outputs.empty() && outputs.front().valid() && graph.value(outputs.front()).name == forward) {
      return other;
    }
  }
  return {};
}

// Of a node that was asked for, or of what is derived from it.
const Suspect* Driver::suspect_of(NodeId id) const {
  const Graph& graph = *program().graph;
  const auto is_of = [&](const Suspect& suspect, NodeId which) {
    if (!which.valid()) return false;
    const Node& node = graph.node(which);
    return !node.outputs.empty() && node.outputs.front().valid() &&
           graph.value(node.outputs.front()).name == suspect.result;
  };
  const Suspect* behind = nullptr;
  const NodeId forward = forward_of(id);
  for (const Suspect& suspect : prepared_.suspects) {
    if (is_of(suspect, id)) return &suspect;
    if (behind == nullptr && is_of(suspect, forward)) behind = &suspect;
  }
  return behind;
}

void Driver::conclude() {
  outcome_.seconds = seconds();
  outcome_.wall_seconds = watch_.seconds(ClockKind::wall);
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
    tell();
    trainer_.feed_step(run, step);
    if (!trainer_.train()) return false;
  }
  trainer_.feed_step(run, last);
  return true;
}

// That made NaN or infinities of finite operands, with what the engine holds now; backward ones where the forward pass
// is finite.
std::vector<NodeId> Driver::failing_nodes(bool backward) {
  std::vector<ValueId> wanted = program().watch_ids;
  for (const Phase& phase : phases_of(program())) wanted.push_back(phase.loss);
  for (const bool also_backward : {false, true}) {
    if (also_backward && !backward) break;
    for (const std::string& name : prepared_.gradients) {
      if (also_backward) wanted.push_back(find(name));
    }
    for (const char* purpose : {"look", "train"}) {
      engine_.set_seed(seed_for(trainer_.seed(), purpose, trainer_.steps()));
      try {
        std::vector<NodeId> bad = engine_.failures(wanted);
        if (!bad.empty()) return bad;
      } catch (const Unsupported& error) {
        outcome_.what = error.what();
      }
    }
  }
  return {};
}

std::string Driver::rule_met(const std::string& result) {
  std::string overflow;
  for (const Suspect& suspect : prepared_.suspects) {
    if (suspect.result != result) continue;
    if (suspect.unsafe.empty()) {
      if (overflow.empty()) overflow = suspect.rule;
      continue;
    }
    const PassResult seen = trainer_.look(add_pass({find(suspect.distance)}));
    if (element_as_double(seen.values.back(), 0) <= 0) return suspect.rule;
  }
  return overflow;
}

void Driver::name_node(const std::vector<NodeId>& bad) {
  if (bad.empty()) {
    outcome_.node = "the optimiser's step";
    outcome_.what = "weights are not finite, though their gradients are,";
    return;
  }
  // Of several the one that was pursued.
  const auto is_pursued = [&](NodeId id) {
    const Suspect* suspect = suspect_of(id);
    return suspect != nullptr && suspect->title == outcome_.site;
  };
  const auto is_asked = [&](NodeId id) { return suspect_of(id) != nullptr; };
  auto chosen = std::ranges::find_if(bad, is_pursued);
  if (chosen == bad.end()) chosen = std::ranges::find_if(bad, is_asked);
  outcome_.at_site = chosen != bad.end();
  if (chosen == bad.end()) chosen = bad.begin();
  const Node& node = program().graph->node(*chosen);
  const NodeId forward = forward_of(*chosen);
  outcome_.node = describe(*program().graph, node);
  outcome_.in_gradient = forward.valid();
  const bool has_result = !node.outputs.empty() && node.outputs.front().valid();
  const std::string result = has_result ? program().graph->value(node.outputs.front()).name : "";
  outcome_.node_name = node.name.empty() ? result : node.name;
  if (forward.valid()) {
    outcome_.node += ", for the derivative of " + describe(*program().graph, program().graph->node(forward));
  }
  outcome_.what = "'" + result + "' is not finite";
  outcome_.disproves = weights_are_in_reach();
  for (const SiteVerdict& verdict : prepared_.verdicts) {
    if (verdict.result != result) continue;
    if (outcome_.rule.empty() || !verdict.proved) outcome_.rule = verdict.rule;
    outcome_.disproves &= verdict.proved;
  }
  outcome_.disproves &= !outcome_.rule.empty();
  if (const std::string met = rule_met(result); !met.empty()) outcome_.rule = met;
}

bool Driver::fails_there(bool backward) {
  const PassResult result = trainer_.look(watch_pass_);
  const bool finite = std::ranges::all_of(result.values, all_finite);
  if (counts_all()) return !finite;
  if (finite && !backward) return false;
  return std::ranges::any_of(failing_nodes(backward), [&](NodeId id) {
    const Suspect* suspect = suspect_of(id);
    return suspect != nullptr && suspect->title == outcome_.site;
  });
}

// Only the last so many training steps, when they suffice.
TrainingRun Driver::shortened(const TrainingRun& run) {
  const double until = std::min(shorten_until_, seconds() + std::max(1.0, outcome_.seconds));
  for (std::size_t keep = 0; keep + 1 < run.steps.size() && seconds() < until; keep = keep == 0 ? 1 : 2 * keep) {
    TrainingRun tried = run;
    const auto from = static_cast<std::ptrdiff_t>(run.steps.size() - 1 - keep);
    tried.steps.erase(tried.steps.begin(), tried.steps.begin() + from);
    tell();
    const Repeated repeated = repeat_run(program(), engine_, tried, watch_pass_);
    if (!repeated.failed) continue;
    if (counts_all() || (trained_to_failure(tried, repeated.step) && fails_there(true))) return tried;
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
      tell();
      std::vector<Tensor> before;
      for (std::size_t i = 0; i < program().inputs.size(); ++i) before.push_back(trainer_.value(i));
      const std::size_t to = std::min(from + size, batch);
      for (std::size_t k = from; k < to; ++k) {
        trainer_.set_sample(k, static_cast<std::int64_t>(k) % trainer_.sample_count());
      }
      if (fails_there(false)) continue;
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (!program().inputs[i].draw) trainer_.set_value(i, std::move(before[i]));
      }
    }
  }
}

void Driver::confirm() {
  if (outcome_.run.steps.empty()) {
    outcome_.what = "the run was too long to keep";
    return;
  }
  TrainingRun run = shortened(outcome_.run);
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
  name_node(failing_nodes(true));
  outcome_.run = trainer_.run();
}

ProgramOutcome Driver::finish() {
  if (!outcome_.hit) conclude();
  shorten_until_ = seconds() + std::max(1.0, options_.seconds / 4);
  const double first = elsewhere_ ? elsewhere_->seconds : !found_.empty() ? found_.front().seconds : outcome_.seconds;
  const auto confirmed = [&](ProgramOutcome found) {
    outcome_ = std::move(found);
    if (options_.confirm) confirm();
    outcome_.first_seconds = std::min(first, outcome_.seconds);
    return std::move(outcome_);
  };
  const std::uint64_t iterations = outcome_.iterations;
  std::vector<OpenSite> open;
  for (const Suspect& suspect : prepared_.suspects) {
    const auto nearest = closest_.find(suspect.title);
    if (closed_.contains(&suspect) || nearest == closest_.end()) continue;
    if (std::ranges::find(open, suspect.title, &OpenSite::title) != open.end()) continue;
    open.push_back({.title = suspect.title, .rule = suspect.rule, .closest = nearest->second});
  }
  const std::string stopped = outcome_.stopped;
  ProgramOutcome result;
  if (outcome_.hit) {
    result = confirmed(std::move(outcome_));
  } else if (!found_.empty()) {
    result = confirmed(std::move(found_.front()));
    for (std::size_t i = 1; i < found_.size(); ++i) result.more.push_back(confirmed(std::move(found_[i])));
    // What is no site at all should not have failed.
    if (elsewhere_ && options_.sites.empty()) result.more.push_back(confirmed(std::move(*elsewhere_)));
  } else if (elsewhere_ && options_.until != Until::at_site) {
    result = confirmed(std::move(*elsewhere_));
  } else {
    result = std::move(outcome_);
  }
  result.stopped = stopped;
  result.iterations = iterations;
  result.open = std::move(open);
  return result;
}

namespace {

void search(Driver& driver, Strategy strategy) {
  driver.trainer().restart();
  driver.trainer().fresh_batch();
  switch (strategy) {
    case Strategy::plain: train_plainly(driver); break;
    case Strategy::grist: search_as_grist(driver, true); break;
    case Strategy::grist_ns: search_as_grist(driver, false); break;
    case Strategy::automatic: search_automatically(driver); break;
  }
}

}  // namespace

ProgramOutcome drive(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine) {
  Driver driver(prepared, options, engine);
  try {
    // The search looks at its clock between passes, and one pass of a large program may take longer than all of it.
    const TimeLimit limit(options.clock == ClockKind::wall ? options.seconds : 0);
    search(driver, options.strategy);
  } catch (const TimeUp&) {
    driver.run_out_of_time();
  }
  return driver.finish();
}

}  // namespace finity
