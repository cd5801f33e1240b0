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
#include "tensor/convert.h"
#include "trigger/objective.h"
#include "trigger/runner.h"
#include "trigger/walk.h"

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;

class Search {
 public:
  Search(const CheckedGraph& model, const SearchOptions& options)
      : model_(model),
        options_(options),
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
  void try_out(const Drawn& drawn);
  void look_around();
  Objective* objective_for(std::size_t finding, const Drawn& start, std::size_t variant);
  void pursue(SiteSearch& site, double until);
  void shrink_all();
  Drawn draw(int number);
  Drawn constant_draw(int number);

  const CheckedGraph& model_;
  const SearchOptions& options_;
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

// Runs the model and keeps what it shows, whichever finding it is about.
void Search::try_out(const Drawn& drawn) {
  for (FailingRun& witness : runner_.run(drawn)) {
    if (!is_confirmed(witness.finding)) result_.witnesses.push_back(std::move(witness));
  }
}

std::size_t size_of(const Datum& datum) { return static_cast<std::size_t>(datum.tensor()->size()); }

// Every element the same: rows without variance, equal operands, ties.
Drawn Search::constant_draw(int number) {
  const Drawn like = draw_inside(model_.graph, model_.types, runner_.space(), rng_, 0);
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
  if (number < 3) return draw_inside(model_.graph, model_.types, runner_.space(), rng_, number);
  if (number < 9) return constant_draw(number - 3);
  return draw_inside(model_.graph, model_.types, runner_.space(), rng_, number % 3 == 0 ? 0 : 3);
}

// What needs no direction shows itself here, for all findings at once.
void Search::look_around() {
  constexpr int kDraws = 16;
  const double until = options_.seconds / 4;
  for (int number = 0; number < kDraws && !is_over() && elapsed() < until; ++number) {
    Drawn drawn;
    with_memory_errors([&] { drawn = draw(number); });
    try_out(drawn);
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

void Search::pursue(SiteSearch& site, double until) {
  const auto over = [&] { return is_over() || elapsed() > until || is_confirmed(site.finding); };
  double closest = std::numeric_limits<double>::infinity();
  constexpr int kPatience = 24;  // walks that came no nearer
  int last_progress = 0;
  for (int round = 0; !over() && round - last_progress < kPatience; ++round) {
    const Drawn from = draw(round);
    Objective* objective = objective_for(site.finding, from, static_cast<std::size_t>(round));
    if (objective == nullptr) {
      site.why_not = "nothing that may vary has a derivative there";
      try_out(from);
      continue;
    }
    if (!objective->stops().empty()) {
      const GradientStop& first = objective->stops().front();
      site.why_not = describe(model_.graph, model_.graph.node(first.node)) + ": " + first.reason;
    }
    Walk walk(model_, runner_.space(), *objective, from, rng_, options_.torch);
    walk.run([&](const Drawn& at) { try_out(at); }, over);
    if (walk.closest() < closest) {
      if (walk.closest() < closest - 1e-3 * std::abs(closest)) last_progress = round;
      closest = walk.closest();
      site.closest = objective->describe(closest);
    }
  }
  objectives_.clear();
}

void Search::shrink_all() {
  constexpr std::size_t kRuns = 400;
  for (FailingRun& witness : result_.witnesses) {
    if (elapsed() > options_.seconds || (options_.stop && options_.stop())) return;
    witness = shrink(runner_, witness, kRuns);
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
