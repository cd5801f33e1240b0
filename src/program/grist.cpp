// The baseline, and the published method: sign steps of the batch along the gradient of the suspect loss, training on
// what that gives, and exchange of the samples that matter least.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "program/driver.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr int kLinearRounds = 5;
// The trend of the suspect loss. Training on other samples moves it up and down, the longer it falls the slower it
// does, and what lies low at the start rises first. So it is given up when it was never smaller in the last half of all
// iterations, and in so many, and does not fall there on average either.
class Trend {
 public:
  void add(double distance) {
    if (distance < best_) last_better_ = sums_.size();
    best_ = std::min(best_, distance);
    sums_.push_back(sums_.back() + (std::isfinite(distance) ? distance : 0));
  }
  bool is_lost() const {
    constexpr std::size_t kPatience = 1000;
    const std::size_t last = sums_.size() - 1, half = std::max(kPatience, last / 2) / 2;
    if (last < last_better_ + 2 * half) return false;
    const double later = sums_[last] - sums_[last - half], earlier = sums_[last - half] - sums_[last - 2 * half];
    return !(later < earlier);
  }

 private:
  double best_ = std::numeric_limits<double>::infinity();
  std::size_t last_better_ = 0;  // iterations before the one that was
  std::vector<double> sums_ = {0};
};

// What a search may change: inputs that change from step to step, and values that only the start of a run uses.
bool is_iterative(const ProgramInput& input) { return !input.draw || input.each_step; }

class Grist {
 public:
  Grist(Driver& driver, const Suspect& suspect, bool switching)
      : driver_(driver), trainer_(driver.trainer()), program_(driver.program()), switching_(switching) {
    std::vector<ValueId> by;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!*program_.inputs[i].change) continue;
      inputs_.push_back(i);
      by.push_back(program_.inputs[i].id);
    }
    for (std::size_t i = 0; i < program_.weights.size(); ++i) {
      if (!program_.weights[i].range) continue;
      weights_.push_back(i);
      by.push_back(program_.weights[i].id);
    }
    const ValueId distance = driver.find(suspect.distance);
    pass_ = driver.add_pass({distance}, by.empty() ? ValueId{} : distance, by);
    const auto batch = static_cast<std::size_t>(program_.batch);
    ages_.assign(batch, 0);
    changed_.assign(batch, 0);
    clipped_.assign(batch, 0);
  }

  // False: it failed elsewhere, and the run was started again.
  bool run() {
    const bool starts = !weights_.empty() ||
                        std::ranges::any_of(inputs_, [&](std::size_t i) { return !is_iterative(program_.inputs[i]); });
    for (int round = 0; starts && round < kLinearRounds && !driver_.is_over(); ++round) linear_round();
    Trend trend;
    while (!driver_.is_over() && !trend.is_lost()) {
      const PassResult result = trainer_.look(pass_);
      const double distance = distance_of(result);
      if (driver_.saw(result, distance)) return driver_.has_hit();
      trend.add(distance);
      mutate(result);
      driver_.train();
      if (switching_) exchange();
    }
    return true;
  }

 private:
  double distance_of(const PassResult& result) const {
    return element_as_double(result.values[driver_.watch_count()], 0);
  }

  // Values of the start: f is taken to be linear, each element goes where it would be 0, and the run starts again.
  void linear_round() {
    trainer_.restart();
    const PassResult result = trainer_.look(pass_);
    const double distance = distance_of(result);
    if (driver_.saw(result, distance)) return;
    const auto stepped = [&](const Tensor& from, const Tensor& slope, const LegalRange& range) {
      std::vector<double> numbers = elements<double>(from);
      const std::vector<double> slopes = elements<double>(slope);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (slopes[i] != 0 && std::isfinite(slopes[i])) {
          numbers[i] = std::clamp(numbers[i] - distance / slopes[i], range.lo, range.hi);
        }
      }
      return from_elements<double>(from.dtype(), from.dims(), numbers);
    };
    std::vector<Tensor> starts;
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      const std::size_t i = weights_[k];
      starts.push_back(
          stepped(driver_.engine().weight(i), result.gradients[inputs_.size() + k], *program_.weights[i].range));
    }
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const std::size_t i = inputs_[k];
      if (is_iterative(program_.inputs[i])) continue;
      trainer_.set_value(i, stepped(trainer_.value(i), result.gradients[k], *program_.inputs[i].range));
    }
    for (std::size_t k = 0; k < weights_.size(); ++k) trainer_.set_start(weights_[k], starts[k]);
    trainer_.restart();
    const PassResult after = trainer_.look(pass_);
    if (!driver_.saw(after, distance_of(after))) driver_.train();
  }

  void mutate(const PassResult& result) {
    for (double& age : ages_) age += 1;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      const std::size_t input = inputs_[k];
      const ProgramInput& described = program_.inputs[input];
      const Tensor& now = trainer_.value(input);
      std::vector<double> numbers = elements<double>(now);
      const std::vector<double> slopes = elements<double>(result.gradients[k]);
      const bool rows = described.batched;
      const std::size_t width = rows ? numbers.size() / ages_.size() : numbers.size();
      bool any = false;
      for (std::size_t row = 0; row * width < numbers.size(); ++row) {
        any |= step_row(numbers, slopes, row * width, width, *described.range, rows ? static_cast<int>(row) : -1);
      }
      if (any) trainer_.set_value(input, from_elements<double>(now.dtype(), now.dims(), numbers));
    }
  }

  // True when an element moved. `sample`: whose score it counts for.
  bool step_row(std::vector<double>& numbers, const std::vector<double>& slopes, std::size_t from, std::size_t width,
                const LegalRange& range, int sample) {
    std::size_t moved = 0, outside = 0;
    for (std::size_t i = from; i < from + width; ++i) {
      if (slopes[i] == 0 || std::isnan(slopes[i])) continue;
      const double wish = numbers[i] - std::copysign(driver_.options().epsilon, slopes[i]);
      const double legal = std::clamp(wish, range.lo, range.hi);
      outside += wish != legal;
      moved += legal != numbers[i];
      numbers[i] = legal;
    }
    if (sample >= 0) {
      const auto at = static_cast<std::size_t>(sample);
      changed_[at] += static_cast<double>(moved) / static_cast<double>(width);
      clipped_[at] += static_cast<double>(outside) / static_cast<double>(width);
    }
    return moved > 0;
  }

  double score(std::size_t sample) const { return (changed_[sample] - clipped_[sample] + 1) / (ages_[sample] + 1e-7); }

  void exchange() {
    if (trainer_.sample_count() <= program_.batch) return;  // nothing is fresh
    const auto rate = driver_.options().switch_rate * static_cast<double>(program_.batch);
    const auto count = std::max<std::size_t>(1, static_cast<std::size_t>(rate));
    std::vector<std::size_t> order(ages_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return score(i); });
    order.resize(std::min(count, order.size()));
    trainer_.fresh_samples(order);
    for (const std::size_t i : order) ages_[i] = changed_[i] = clipped_[i] = 0;
  }

  Driver& driver_;
  Trainer& trainer_;
  const Program& program_;
  bool switching_;
  std::vector<std::size_t> inputs_, weights_;  // that may be changed
  std::size_t pass_ = 0;
  // By sample: m, the sums of u, the sums of c. An iteration updates the batch, so it counts for every sample of it:
  // one that the gradient leaves alone gains nothing and gets old. (If only those counted whose elements moved, each
  // iteration would throw away just the sample that it had improved.)
  std::vector<double> ages_, changed_, clipped_;
};

bool watches_only_losses(const Program& program) {
  const std::vector<Phase> phases = phases_of(program);
  return !phases.empty() && std::ranges::all_of(program.watch_ids, [&](ValueId id) {
    return std::ranges::find(phases, id, &Phase::loss) != phases.end();
  });
}

}  // namespace

void train_plainly(Driver& driver) {
  Trainer& trainer = driver.trainer();
  const bool by_training = watches_only_losses(driver.program());
  const std::size_t look = driver.add_pass({});
  while (!driver.is_over()) {
    // Training computes the losses anyway; what else is watched needs a look of its own.
    if (!by_training && driver.saw(trainer.look(look), std::numeric_limits<double>::quiet_NaN())) {
      if (driver.has_hit()) return;
    }
    if (by_training) driver.count();
    if (!driver.train()) return;
    trainer.fresh_batch();
  }
}

void search_as_grist(Driver& driver, bool switching) {
  for (const Suspect& suspect : driver.prepared().suspects) {
    if (driver.is_finished()) return;
    if (!driver.is_open(suspect)) continue;
    driver.pursue(suspect);
    driver.trainer().forget_starts();
    driver.trainer().release_draws();
    driver.trainer().restart();
    driver.trainer().fresh_batch();
    Grist grist(driver, suspect, switching);
    // Again from the start after a failure that does not count.
    while (!grist.run() && !driver.is_over()) {
    }
  }
}

}  // namespace finity
