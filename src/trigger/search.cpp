#include "trigger/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "base/memory_error.h"
#include "base/time_limit.h"
#include "check/class_counts.h"
#include "check/run_sizes.h"
#include "tensor/convert.h"
#include "trigger/objective.h"
#include "trigger/probe.h"
#include "trigger/runner.h"
#include "trigger/tinker.h"
#include "trigger/walk.h"

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;

class Search {
 public:
  Search(const CheckedGraph& model, const SearchOptions& options)
      : model_(model),
        options_(options),
        drawn_types_(model.types),
        classes_(class_counts(model.graph, model.types)),
        runner_(model, options.seed, options.torch_runs),
        rng_(options.seed),
        start_(Clock::now()) {}

  SearchResult run();

 private:
  void pick_sites();
  void pick_variables();
  bool is_over() const;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool is_confirmed(std::size_t finding) const;
  bool is_settled(std::size_t finding) const;
  void try_out(const Drawn& drawn, std::optional<std::size_t> deeper = {});
  void look_around();
  void choose_sizes();
  Objective* objective_for(std::size_t finding, const Drawn& start, std::size_t variant);
  double tinker(SiteSearch& site, const Drawn& from, double closest, double seconds, const std::function<bool()>& over);
  double walk(SiteSearch& site, Objective& objective, const Drawn& from, double closest, double until,
              const std::function<bool()>& over);
  void pursue(SiteSearch& site, double until);
  void shrink_all();
  Drawn draw(int number);
  Drawn with_labels(Drawn drawn);
  Drawn constant_draw(int number);

  const CheckedGraph& model_;
  const SearchOptions& options_;
  Types drawn_types_;                  // of the model, with larger sizes where it did not take small ones
  std::vector<std::int64_t> classes_;  // of labels, by ValueId
  Runner runner_;
  Rng rng_;
  Clock::time_point start_;
  std::vector<ValueId> variables_;
  std::map<std::string, Dims> sizes_;  // of the inputs that the following are for
  std::unique_ptr<SizedModels> sized_;
  std::map<std::pair<std::size_t, std::size_t>, std::optional<Objective>> objectives_;  // by finding and variant
  SearchResult result_;
};

void Search::pick_sites() {
  for (std::size_t i = 0; i < model_.analysis.findings.size(); ++i) {
    const Finding& finding = model_.analysis.findings[i];
    const bool open = finding.verdict == Verdict::possible && finding.node.valid();
    if (open && (!options_.wanted || options_.wanted(finding))) result_.sites.push_back({.finding = i});
  }
}

// Floats that may vary; integers are only drawn.
void Search::pick_variables() {
  for (std::size_t i = 0; i < runner_.space().of.size(); ++i) {
    const auto& range = runner_.space().of[i];
    if (range && is_float(range->dtype)) variables_.push_back({static_cast<std::int32_t>(i)});
  }
}

bool Search::is_over() const { return elapsed() > options_.seconds || (options_.stop && options_.stop()); }

bool Search::is_confirmed(std::size_t finding) const {
  return std::ranges::find(result_.witnesses, finding, &FailingRun::finding) != result_.witnesses.end();
}

// It came true, or what it only goes on from did.
bool Search::is_settled(std::size_t finding) const {
  for (int at = static_cast<int>(finding); at >= 0; at = model_.analysis.findings[static_cast<std::size_t>(at)].root) {
    if (is_confirmed(static_cast<std::size_t>(at))) return true;
  }
  return false;
}

// Runs the model and keeps what it shows, whichever finding it is about; of `deeper` what came last, and rather a run
// that came to its end.
void Search::try_out(const Drawn& drawn, std::optional<std::size_t> deeper) {
  for (FailingRun& witness : runner_.run(drawn)) {
    const auto known = std::ranges::find(result_.witnesses, witness.finding, &FailingRun::finding);
    if (known == result_.witnesses.end()) result_.witnesses.push_back(std::move(witness));
    else if (witness.finding == deeper || (known->outputs.empty() && !witness.outputs.empty()))
      *known = std::move(witness);
  }
}

std::size_t size_of(const Datum& datum) { return static_cast<std::size_t>(datum.tensor()->size()); }

// Every element the same: rows without variance, equal operands, ties.
Drawn Search::constant_draw(int number) {
  const Drawn like = draw_inside(model_.graph, drawn_types_, runner_.space(), rng_, 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {0, 1, -kInfinity, kInfinity, -1};
  const double same = number < 5 ? values[number] : rng_.uniform(-4, 4);
  Numbers wished;
  for (const ValueId id : variables_) {
    const auto input = like.inputs.find(model_.graph.value(id).name);
    const auto weight = like.weights.find(id);
    if (weight != like.weights.end() && model_.graph.value(id).constant) continue;
    if (weight != like.weights.end()) wished[id].assign(size_of(weight->second), same);
    if (input != like.inputs.end()) {
      wished[id].assign(size_of(input->second), same);
    }
  }
  return fit_inside(model_.graph, model_.types, runner_.space(), like, wished, rng_);
}

// A few kinds of inputs in turn: plain, all low, all high, constant, mixed with special numbers.
Drawn Search::draw(int number) {
  if (number < 3) return draw_inside(model_.graph, drawn_types_, runner_.space(), rng_, number);
  if (number < 9) return with_labels(constant_draw(number - 3));
  Drawn drawn = draw_inside(model_.graph, drawn_types_, runner_.space(), rng_, number % 3 == 0 ? 0 : 3);
  return number % 2 == 0 ? drawn : with_labels(std::move(drawn));
}

// A label that is no class ends the run of a loss, with all that would have come behind it.
Drawn Search::with_labels(Drawn drawn) {
  Numbers wished;
  for (const ValueId id : model_.graph.main().inputs) {
    const auto given = drawn.inputs.find(model_.graph.value(id).name);
    const std::int64_t classes = classes_[id.at()];
    const Tensor* tensor = given == drawn.inputs.end() ? nullptr : given->second.tensor();
    if (classes <= 0 || tensor == nullptr || !is_int(tensor->dtype())) continue;
    wished[id] = elements<double>(*tensor);
    for (double& x : wished[id]) {
      if (x < 0 || x >= static_cast<double>(classes))
        x = static_cast<double>(rng_.below(static_cast<std::uint64_t>(classes)));
    }
  }
  if (wished.empty()) return drawn;
  return fit_inside(model_.graph, model_.types, runner_.space(), drawn, wished, rng_);
}

// None of the small inputs suited the model: perhaps larger ones do.
void Search::choose_sizes() {
  Rng rng(options_.seed);
  drawn_types_ = with_sizes_that_run(model_.graph, model_.types, runner_.space(), rng, options_.seconds / 8);
  runner_.forget_stops();
}

// What needs no direction shows itself here, for all findings at once.
void Search::look_around() {
  constexpr int kDraws = 16;
  const double until = options_.seconds / 4;
  for (int number = 0; number < kDraws && !is_over() && elapsed() < until; ++number) {
    Drawn drawn;
    with_memory_errors([&] { drawn = draw(number); });
    try_out(drawn);
    if (number == 2 && runner_.stopped() == runner_.runs()) choose_sizes();
  }
}

// Building one costs more than a walk; sizes rarely change from one start to the next.
Objective* Search::objective_for(std::size_t finding, const Drawn& start, std::size_t variant) {
  std::map<std::string, Dims> sizes;
  for (const auto& [name, datum] : start.inputs) {
    if (datum.tensor() != nullptr) sizes[name] = datum.tensor()->dims();
  }
  if (!sized_ || sizes != sizes_) {
    sized_ = std::make_unique<SizedModels>(with_sizes(model_, start));
    sizes_ = std::move(sizes);
    objectives_.clear();
  }
  const std::size_t count = Objective::variants(model_, finding);
  const std::pair key(finding, variant % count);
  const auto [place, fresh] = objectives_.try_emplace(key);
  if (fresh) place->second = Objective::make(model_, *sized_, finding, variables_, key.second);
  return place->second ? &*place->second : nullptr;
}

// By changing one thing after the other, for `seconds` at most. How near it came; told at once, as a run may be cut
// off.
double Search::tinker(SiteSearch& site, const Drawn& from, double closest, double seconds,
                      const std::function<bool()>& over) {
  const std::optional<Probe> probe = Probe::make(model_, site.finding);
  if (!probe) return closest;
  constexpr int kChanges = 300;
  const double until = elapsed() + seconds;
  const auto nearer = [&](const Drawn& at, double distance) {
    if (distance < closest) site.closest = probe->describe(closest = distance);
    if (distance <= 0) try_out(at, site.finding);
  };
  Tinker search(model_, runner_.space(), *probe, rng_, options_.seed);
  search.run(from, kChanges, nearer, [&] { return over() || elapsed() > until; });
  return closest;
}

// Along the slopes of the distance, then by trying: integers have no slopes, and what is nearly zero is a matter of
// rounding. As long again.
double Search::walk(SiteSearch& site, Objective& objective, const Drawn& from, double closest, double until,
                    const std::function<bool()>& over) {
  if (!objective.stops().empty()) {
    const GradientStop& first = objective.stops().front();
    site.why_not = describe(model_.graph, model_.graph.node(first.node)) + ": " + first.reason;
  }
  const double start = elapsed();
  Walk walk(model_, runner_.space(), objective, from, rng_, options_.torch);
  walk.run([&](const Drawn& at) { try_out(at, site.finding); }, over);
  if (walk.closest() < closest) site.closest = objective.describe(closest = walk.closest());
  constexpr double kLeast = 0.05, kNear = 1e-3;
  double seconds = std::max(elapsed() - start, kLeast);
  // The last digits are worth more.
  if (objective.is_plain() && walk.closest() < kNear) seconds = std::max(seconds, (until - elapsed()) / 8);
  // Nearer to what the model itself computes is another measure: what was said of the walk stays.
  SiteSearch unsaid = site;
  tinker(unsaid, walk.end(), kInf, seconds, over);
  return closest;
}

void Search::pursue(SiteSearch& site, double until) {
  // A few steps farther than to where it first comes true: on the edge another library's rounding would hide it.
  constexpr int kDeeper = 12;
  int steps_inside = 0;
  const auto over = [&] {
    return is_over() || elapsed() > until || (is_confirmed(site.finding) && ++steps_inside > kDeeper);
  };
  double closest = kInf;
  constexpr int kPatience = 24;        // rounds that came no nearer
  constexpr int kTrialsPatience = 10;  // the same where each is hundreds of trials
  int patience = kPatience;
  int last_progress = 0;
  for (int round = 0; !over() && round - last_progress < patience; ++round) {
    const Drawn from = draw(round);
    double reached = closest;
    if (Objective* objective = objective_for(site.finding, from, static_cast<std::size_t>(round))) {
      reached = walk(site, *objective, from, closest, until, over);
    } else {
      site.why_not = "nothing that may vary has a derivative there";
      patience = kTrialsPatience;
      try_out(from);
      reached = tinker(site, from, closest, (until - elapsed()) / 8, over);
    }
    const bool progress = closest == kInf ? reached < kInf : reached < closest - 1e-3 * std::abs(closest);
    if (progress) last_progress = round;
    closest = std::min(closest, reached);
  }
  objectives_.clear();
}

void Search::shrink_all() {
  constexpr std::size_t kRuns = 400;
  for (FailingRun& witness : result_.witnesses) {
    if (elapsed() > options_.seconds || (options_.stop && options_.stop())) return;
    const std::optional<Probe> probe = Probe::make(model_, witness.finding);
    const double depth = probe ? probe->distance(*witness.drawn, options_.seed) : 0;
    // Not back to the edge, where rounding decides; what is exactly there, a zero, is there in every library.
    constexpr double kDeep = -0.01;
    const double least = std::max(depth / 2, kDeep);
    witness = shrink(runner_, witness, kRuns, [&](const Drawn& drawn) {
      if (!(depth < 0)) return true;
      const double now = probe->distance(drawn, options_.seed);
      return now == 0 || now <= least;
    });
  }
}

SearchResult Search::run() {
  pick_sites();
  pick_variables();
  if (result_.sites.empty()) return std::move(result_);
  const TimeLimit limit(options_.seconds);
  try {
    look_around();
    for (std::size_t i = 0; i < result_.sites.size() && !is_over(); ++i) {
      if (is_settled(result_.sites[i].finding)) continue;
      const double share = (options_.seconds - elapsed()) / static_cast<double>(result_.sites.size() - i);
      pursue(result_.sites[i], elapsed() + share);
    }
    shrink_all();
  } catch (const TimeUp&) {
    result_.time_up = true;
  } catch (const Error& error) {
    // A proof that does not hold is a bug of finity and ends everything; a model that cannot be run is not.
    if (std::string_view(error.what()).starts_with(kVerificationFailed)) throw;
    result_.failed = error.what();
  }
  for (SiteSearch& site : result_.sites) site.confirmed = is_confirmed(site.finding);
  result_.runs = runner_.runs();
  if (result_.failed.empty()) result_.failed = runner_.failure();
  result_.time_up |= elapsed() > options_.seconds;
  return std::move(result_);
}

}  // namespace

SearchResult search_failures(const CheckedGraph& model, const SearchOptions& options) {
  return Search(model, options).run();
}

}  // namespace finity
